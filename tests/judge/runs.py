"""Run directories made by hand: what a run leaves, with steps, ranks and events as a test wants them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from mindrecipe.measure.artifacts import write_summary
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import Event, RankStep, StepRecord, Usage, to_line
from mindrecipe.measure.summary import Session, summarise

TOKENS = 1024
DONE = Outcome(state="completed", exit_code=0)
_STEP = StepRecord(
    step=1, epoch=1, loss=5.0, lr=1e-3, grad_norm=0.5, loss_scale=1.0, overflow=False, step_time=0.2, data_time=0.001, compute_time=0.198,
    other_time=0.001, tokens_per_s=TOKENS / 0.2, tflops_per_device=0.03, mfu=None, memory_bytes=2**30,
)  # fmt: skip
MACHINE = {"system": "Linux", "cpu": "a cpu", "host": "here", "npu": None, "npu_count": 0, "memory_bytes": 2**34, "cores": 2}


def steps(count: int = 80, *, seed: int = 0, slow: float = 1.0, noise: float = 0.05, **changes: Any) -> list[StepRecord]:
    """A healthy training: a falling loss, steps of 0.2 s with some noise, the first one compiles."""
    drawn = np.random.default_rng(seed)
    found = []
    for number in range(1, count + 1):
        compute = 0.198 * slow * float(np.exp(drawn.normal(scale=noise))) + (8.0 if number == 1 else 0.0)
        took = compute + 0.002
        loss = 4.0 + 3.0 * float(np.exp(-number / 30)) + 0.03 * float(np.random.default_rng(number).normal())
        found.append(replace(_STEP, step=number, loss=loss, compute_time=compute, step_time=took, tokens_per_s=TOKENS / took, **changes))
    return found


def usage(time: float = 0.0, **changes: Any) -> Usage:
    base = Usage(time=time, cpu=1.8, host_cpu=1.9, rss=2**30, host_memory=2**32, disk_read=0.0, disk_write=0.0, net_sent=0.0, net_received=0.0,
                 npu=None)  # fmt: skip
    return replace(base, **changes)


def make(
    path: Path,
    records: Sequence[StepRecord],
    *,
    outcome: Outcome = DONE,
    ranks: dict[int, Sequence[RankStep]] | None = None,
    samples: Sequence[Usage] = (),
    events: Sequence[Event] = (),
    config: dict[str, Any] | None = None,
    lock: dict[str, Any] | None = None,
    derived: dict[str, Any] | None = None,
) -> Path:
    """Write the run directory ``path``."""
    (path / "logs").mkdir(parents=True)
    whole_config: dict[str, Any] = {
        "run": {"name": "tiny"}, "model": {"name": "llama2_tiny"}, "optimizer": {"learning_rate": 1e-3, "grad_clip": 1.0},
        "dataset": {"num_parallel_workers": 2, "prefetch_size": 2},
    }  # fmt: skip
    for section, values in (config or {}).items():
        whole_config[section] = {**whole_config.get(section, {}), **values}
    facts: dict[str, Any] = {
        "device": "cpu", "device_target": "CPU", "device_num": 1, "nodes": 1, "devices_per_node": 1, "global_batch_size": 8,
        "tokens_per_step": TOKENS, "total_steps": len(records), "peak_flops": None, "parameters": 1_000_000, "seed": 42, "resume": None,
        "dataset": {"unigram_entropy": 6.1, "fingerprint": "abc"}, "steps_per_epoch": 1000, "loss_scale": {"kind": "none"},
    }  # fmt: skip
    told: dict[str, Any] = {
        "schema": 1, "created": "2025-01-01T00:00:00+0000", "command": ["model=llama2_tiny"], "options": {"recipe": "None", "model": "llama2_tiny"},
        "config_hash": "c0ffee", "dataset_hash": "abc", "packages": {"mindspore": "2.9.0", "mindformers": "1.9.0"}, "python": "3.11.7",
        "machine": MACHINE, "cann": None, "driver": None, "derived": facts | (derived or {}),
    }  # fmt: skip
    (path / "config.yaml").write_text(yaml.safe_dump(whole_config))
    (path / "lock.json").write_text(json.dumps(told | (lock or {})))
    (path / "metrics.jsonl").write_text("".join(map(to_line, records)))
    for rank, own in (ranks or {}).items():
        (path / "logs" / f"rank_{rank}.steps.jsonl").write_text("".join(map(to_line, own)))
    (path / "logs" / "rank_0.usage.jsonl").write_text("".join(map(to_line, samples)))
    (path / "logs" / "rank_0.events.jsonl").write_text("".join(map(to_line, events)))
    (path / "logs" / "rank_0.log").write_text("")
    ended = sum(record.step_time for record in records)
    summary = summarise(outcome, records, session=Session(started=0.0, ended=ended, first_step=9.0), usage=samples, total_steps=len(records),
                        grad_clip=whole_config["optimizer"]["grad_clip"], tokens_per_sample=128)  # fmt: skip
    write_summary(path / "summary.json", summary)
    return path
