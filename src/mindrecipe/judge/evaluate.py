"""A run's weights evaluated in a fresh process: accuracy, latency, throughput, resources. Never a number of a process that has trained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mindrecipe
from mindrecipe.checkpoints.find import Checkpoint, find
from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import EVALUATIONS, Recorded
from mindrecipe.launch.processes import die_with
from mindrecipe.measure.curves import percentiles
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.tail import last_lines

#: forward passes before those that are timed, and those: a 99th percentile of fewer than a thousand is of a handful of passes
WARM_UP, PASSES = 10, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Of ``step``, over ``tokens`` held-out tokens. ``latency`` of a forward pass of one micro batch of ``batch_size`` rows, seconds;
    ``tokens_per_s`` over whole passes, reading included; ``cores`` busy while it did that, ``others`` the share of the host that other
    processes used; ``memory_bytes`` its peak.
    """

    run: str
    step: int
    data: str
    loss: float
    perplexity: float
    tokens: int
    batch_size: int
    passes: int
    latency: dict[str, float | None]
    compile_time: float
    build_time: float
    tokens_per_s: float
    cores: float
    others: float
    memory_bytes: int
    time: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def evaluate(
    run: Recorded,
    *,
    step: int | None = None,
    overrides: Sequence[str] = (),
    passes: int = PASSES,
    max_batches: int | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Evaluate the checkpoint of ``step`` (None: the last) on the held-out split of the run's data, or of what ``overrides`` say
    (dataset=..., tokenized with the run's own tokenizer). UserError where that can't be.
    """
    _require_whole(run)
    checkpoint = _checkpoint(run, step)
    files, data = _data(run, overrides, told)
    folder = _new_folder(run.path / EVALUATIONS)
    request = {
        "weights": [str(path) for path in checkpoint.files if "-opt-" not in path.name][: None if checkpoint.file_name is None else 1],
        "files": files,
        "max_batches": max_batches,
        "passes": passes,
        "warm_up": WARM_UP,
    }
    (folder / "request.json").write_text(json.dumps(request, indent=2) + "\n", encoding="utf-8")
    told(f"evaluating step {checkpoint.step} in a fresh process: {folder}")
    result = _work(run, folder)
    found = Evaluation(
        run=str(run.path),
        step=checkpoint.step,
        data=data,
        loss=result["loss"],
        perplexity=result["perplexity"],
        tokens=result["tokens"],
        batch_size=result["batch_size"],
        passes=len(result["latencies"]),
        latency=percentiles(result["latencies"]),
        compile_time=result["seconds"]["compile"],
        build_time=result["seconds"]["build"],
        tokens_per_s=result["tokens_per_s"],
        cores=result["cores"],
        others=result["others"],
        memory_bytes=result["memory_bytes"],
        time=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    )
    (folder / "evaluation.json").write_text(json.dumps(plain(found.as_dict()), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return found


def _require_whole(run: Recorded) -> None:
    shards = {axis: run.derived.get(axis) or 1 for axis in ("model_parallel", "pipeline_stage", "context_parallel")}
    cut = [f"{axis}={size}" for axis, size in shards.items() if size > 1]
    if cut:
        raise UserError(
            f"{run.path} holds slices of the network ({', '.join(cut)}): one process can't put them together",
            mend="merge the checkpoint with mindformers' own tool, and load it into a stand-alone run",
        )


def _checkpoint(run: Recorded, step: int | None) -> Checkpoint:
    found = find(run.path)
    if not found.complete:
        raise UserError(f"{run.path} has no complete checkpoint", mend="train with checkpoint=final or checkpoint=steps")
    if step is None:
        return found.complete[-1]
    for checkpoint in found.complete:
        if checkpoint.step == step:
            return checkpoint
    steps = ", ".join(str(checkpoint.step) for checkpoint in found.complete)
    raise UserError(f"{run.path} has no checkpoint of step {step}; it has {steps}", mend=f"--checkpoint {found.complete[-1].step}")


def _data(run: Recorded, overrides: Sequence[str], told: Callable[[str], None]) -> tuple[list[str], str]:
    """Files of the held-out split, and what they are of."""
    facts = run.derived.get("dataset") or {}
    if not overrides:
        files = [str(path) for path in facts.get("heldout_files") or ()]
        missing = [path for path in files if not Path(path).is_file()]
        if not files or missing:
            what = f"its held-out data is gone: {missing[0]}" if missing else "it has no held-out data"
            raise UserError(f"{run.path}: {what}", mend="mindrecipe evaluate RUN dataset=stdlib, or dataset=text with dataset.files")
        return files, str(facts.get("fingerprint"))
    from mindrecipe.judge.other_data import prepared  # Hydra: who names no other data need not wait for it

    dataset = prepared(run, overrides, told)
    return list(dataset.heldout_files), dataset.fingerprint


def _new_folder(root: Path) -> Path:
    name = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        folder = root / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as fault:
            raise UserError(f"can't write {folder}: {fault.strerror}", mend="a run directory of yours") from fault
        return folder
    raise RuntimeError(f"no free name below {root}")


def _work(run: Recorded, folder: Path) -> dict[str, Any]:
    log = folder / "rank_0.log"
    # `python -m` would look for libraries in the current folder first: worker/environment.py puts it last
    environ = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}
    source = str(Path(mindrecipe.__file__).resolve().parents[1])
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), source]))
    command = [sys.executable, "-m", "mindrecipe.worker.evaluation", str(run.path), str(folder / "request.json")]
    with log.open("wb") as output:
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False, preexec_fn=die_with(os.getpid())
        )
    if done.returncode != 0 or not (folder / "result.json").is_file():
        said = "\n".join(last_lines(log, 4))
        raise UserError(f"the evaluation failed (exit code {done.returncode}):\n{said}", mend=f"the whole of what it said: {log}")
    return dict(json.loads((folder / "result.json").read_text(encoding="utf-8")))
