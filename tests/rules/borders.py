"""Configurations near the borders of the rules, at a size that mindformers builds in a fraction of a second; and its verdict on them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mends import quick
from mindrecipe.errors import UserError
from mindrecipe.freeze import to_yaml
from mindrecipe.rules import RULES

JUDGE = Path(__file__).with_name("stock_judge.py")
BASES = (
    ("+model=llama2_tiny", "parallel=semi_auto", "amp=O2", "device=ascend_910b"),
    ("+model=qwen3_tiny", "parallel=semi_auto", "amp=O2", "device=ascend_910b"),
)
#: knob -> values on both sides of what divides, fits or counts; the first is the usual one
KNOBS: dict[str, list[object]] = {
    "launch.devices_per_node": [8, 2, 4, 6, 16],
    "parallel.data_parallel": ["null", 1, 2, 3, 4],
    "parallel.model_parallel": [1, 2, 3, 4, 8],
    "parallel.context_parallel": [1, 2, 4],
    "parallel.pipeline_stage": [1, 2, 3, 4],
    "parallel.micro_batch_num": [4, 1, 2, 8],
    "parallel.pipeline_interleave": [1, 2],
    "parallel.seq_split_num": [1, 2, 3],
    "parallel.pipeline_scheduler": ["null", "1f1b", "seqpipe", "seqvpp", "zero_bubble_v"],
    "parallel.micro_batch_interleave_num": [1, 2],
    "parallel.gradient_accumulation_steps": [1, 4],
    "parallel.use_seq_parallel": ["false", "true"],
    "parallel.context_parallel_algo": ["colossalai_cp", "ulysses_cp", "hybrid_cp"],
    "parallel.ulysses_degree_in_cp": [1, 2, 3],
    "parallel.vocab_emb_dp": ["null", "true", "false"],
    "parallel.full_batch": ["true", "false"],
    "parallel.optimizer_parallel": ["true", "false"],
    "model.num_layers": [4, 1, 2, 3, 5, 7, 8],
    "model.num_heads": [8, 2, 3, 4, 16],
    "model.num_kv_heads": ["null", 1, 2, 3, 4, 8],
    "model.hidden_size": [128, 96, 130, 144],
    "model.intermediate_size": [256, 255, 258],
    "model.vocab_size": [1024, 1021, 1026],
    "model.seq_length": [128, 126, 127],
    "model.offset": [0, 1, "[0,1]", "[1,0]", "[1,-1]", "[0,1,1,0]", "[[0,1],[0,0]]"],
    "model.use_flash_attention": ["null", "true", "false"],
    "model.tie_word_embeddings": ["false", "true"],
    "recompute": ["none", "full", "selective", "per_stage"],
    "recompute.layers": ["null", "[1]", "[1,2]", "[1,1,1]"],
    "amp.dtype": ["auto", "float16"],
    "amp.softmax_dtype": ["null", "float32", "float16"],
    "amp.rotary_dtype": ["null", "float32", "float16"],
    "schedule": ["cosine", "wsd", "linear", "polynomial", "constant_cooldown"],
    "schedule.warmup_steps": [2, 0, 40],
    "schedule.lr_end": [0, 1, 1e-6],
}
#: what random draws hardly meet: recomputation in a V of two chunks a stage
V_SHAPED = ("parallel.pipeline_scheduler=zero_bubble_v", "parallel.pipeline_interleave=2", "parallel.micro_batch_num=8")
EDGES = [
    (*base, "parallel.pipeline_stage=4", "model.num_layers=8", *V_SHAPED, *words)
    for base in BASES
    for words in (
        ("recompute=attention",),
        ("recompute=selective",),
        ("recompute=per_stage", "recompute.layers=[1,1,1,1]"),
        ("recompute=per_stage", "recompute.layers=[[1,1,1,1],[0,0,1,1]]"),
        ("recompute=selective", r"recompute.patterns={feed_forward\.w1: [1,1,1,1]}"),
        ("recompute=selective", r"recompute.patterns={feed_forward\.w1: [[1,1,1,1],[0,1,0,1]]}"),
        (r'recompute.select_comm_recompute=[".*\.norm"]',),
    )
]
USUAL = {"schedule.total_steps": 20, "optimizer.learning_rate": 1e-3}
#: rules of what stops later than the judge looks: at compilation, at the first step, at a save, or in the data
LATER = {
    "mesh.micro_batches": "compilation",
    "mesh.sequence_parallel": "compilation",
    "mesh.sequence_pipeline": "compilation where the sequence does not divide",
    "mesh.widths": "compilation (mcore)",
    "mesh.context_parallel": "compilation where the sequence does not divide",
    "mesh.layers": "compilation where a number stands for a list",
    "model.tied_stages": "compilation",
    "recompute.layers": "compilation where there are fewer numbers than stages",
    "model.heads": "compilation where a head is odd, or query heads are no multiple of key/value heads",
    "model.positions": "compilation",
}


@dataclass
class Tally:
    """What both said. ``false_accepts`` and ``false_alarms`` hold the overrides and the other's words."""

    drawn: int = 0
    accepted: int = 0
    rejected: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    confirmed: Counter[str] = field(default_factory=Counter)
    false_accepts: list[tuple[str, str]] = field(default_factory=list)
    false_alarms: list[tuple[str, str]] = field(default_factory=list)
    wrong_batches: list[str] = field(default_factory=list)


def draw(rng: random.Random) -> tuple[str, ...]:
    """A base with a few knobs moved to the other side of a border."""
    base = rng.choice(BASES)
    keys = rng.sample(sorted(KNOBS), rng.choice([1, 1, 2, 2, 3, 4]))
    if rng.random() < 0.5:  # half of them around a pipeline, or what shares a sequence
        keys += [
            key
            for key in rng.choice([("parallel.pipeline_stage",), ("parallel.context_parallel", "model.num_kv_heads")])
            if key not in keys
        ]
    first = {"parallel.micro_batch_num": KNOBS["parallel.micro_batch_num"][0]} if "parallel.pipeline_stage" in keys else {}
    values = {**USUAL, **first, **{key: rng.choice(KNOBS[key]) for key in keys}}
    return (*base, *(f"{key}={value}" for key, value in values.items()))


def tally(drawn: Iterable[tuple[str, ...]], folder: Path) -> Tally:
    """Ask the rules and mindformers about each of ``drawn`` that can be composed at all."""
    found, jobs, asked = Tally(), [], []
    for number, overrides in enumerate(drawn):
        try:
            run = quick(*overrides)
        except UserError:
            continue  # a value that the schema refuses
        errors = {finding.rule for finding in run.check() if finding.severity == "error"}
        path = folder / f"{number}.yaml"
        path.write_text(to_yaml(run.lower()), encoding="utf-8")
        jobs.append({"path": str(path), "devices": run.derived.device_num})
        asked.append((overrides, errors, run.derived.global_batch_size))
    answers = list(_judged(jobs, folder))
    assert len(answers) == len(asked), f"the judge ended after {len(answers)} of {len(asked)}: {asked[len(answers)][0]}"
    for (overrides, errors, batch), answer in zip(asked, answers, strict=True):
        _count(found, " ".join(overrides), errors, batch, answer)
    return found


def _judged(jobs: list[dict[str, object]], folder: Path) -> Iterator[dict[str, object]]:
    todo, answers = folder / "jobs.json", folder / "answers.jsonl"
    todo.write_text(json.dumps(jobs), encoding="utf-8")
    subprocess.run([sys.executable, str(JUDGE), str(todo), str(answers)], capture_output=True, text=True, check=False)
    for line in answers.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _count(found: Tally, text: str, errors: set[str], batch: int, answer: dict[str, object]) -> None:
    found.drawn += 1
    if not errors:
        found.accepted += 1
        if answer["stage"] is not None:
            found.false_accepts.append((text, f"{answer['stage']}: {answer['error']}"))
        elif answer["global_batch"] != batch:
            found.wrong_batches.append(f"{text}: {batch}, mindformers {answer['global_batch']}")
        return
    found.rejected += 1
    stopping = {name for name in errors if RULES[name].outcome == "stops"}
    found.stops.update(stopping)
    if answer["stage"] is not None:
        found.confirmed.update(stopping)
    elif stopping - set(LATER) and stopping == errors:
        found.false_alarms.append((text, ", ".join(sorted(stopping))))
