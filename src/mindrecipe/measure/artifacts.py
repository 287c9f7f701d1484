"""What a run leaves in its directory, read: held-out parts, facts of its lock; and its summary, written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from mindrecipe.errors import UserError
from mindrecipe.measure.numbers import plain
from mindrecipe.measure.summary import HeldOut, Summary
from mindrecipe.runfiles import CONFIG, LOCK


def read_heldout(run_dir: Path) -> list[HeldOut]:
    """The held-out parts that ranks wrote."""
    parts = []
    for path in sorted((run_dir / "heldout").glob("rank_*.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        parts.append(HeldOut(loss_sum=float(raw["loss_sum"]), tokens=int(raw["tokens"])))
    return parts


def unigram_entropy(run_dir: Path) -> float | None:
    """The unigram entropy of the run's data set, from its lock; None where there is no lock or the data set has none."""
    found = (dataset_of(run_dir) or {}).get("unigram_entropy")
    return None if found is None else float(found)


def resumed_step(run_dir: Path) -> int:
    """The step of the checkpoint that the run goes on from, from its lock; 0 for a run from scratch."""
    resume = resumed_from(run_dir)
    return int(resume["step"]) if resume else 0


def resumed_from(run_dir: Path) -> dict[str, Any] | None:
    """The checkpoint that the run goes on from (``checkpoint``, a folder; ``file``, of rank 0, or None; ``step``); None: from scratch."""
    found: dict[str, Any] | None = _derived(run_dir).get("resume")
    return found


def origin_of(run_dir: Path) -> dict[str, Any] | None:
    """As :func:`resumed_from`, the checkpoint of another run that the run as a whole goes on from, whatever its last attempt began with."""
    derived = _derived(run_dir)
    found: dict[str, Any] | None = derived.get("origin", derived.get("resume"))
    return found


def total_steps_of(run_dir: Path) -> int | None:
    """The last step that the run was frozen to train to; None where it has no lock."""
    found = _derived(run_dir).get("total_steps")
    return None if found is None else int(found)


def dataset_of(run_dir: Path) -> dict[str, Any] | None:
    """What the run's lock says of its data set (derive, DataFacts)."""
    found: dict[str, Any] | None = _derived(run_dir).get("dataset")
    return found


def grad_clip(run_dir: Path) -> float | None:
    """optimizer.grad_clip of the run; None where nothing is clipped, or the directory holds no configuration."""
    found = read_config(run_dir).get("optimizer", {}).get("grad_clip")
    return None if found is None else float(found)


def tokens_per_sample(run_dir: Path) -> int | None:
    """Tokens that one sequence counts for in a step."""
    derived = _derived(run_dir)
    batch = derived.get("global_batch_size")
    return int(derived["tokens_per_step"]) // int(batch) if batch else None


def read_config(run_dir: Path) -> dict[str, Any]:
    """The resolved configuration; empty where there is none."""
    path = run_dir / CONFIG
    if not path.is_file():
        return {}
    try:
        return dict(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except (ValueError, TypeError, yaml.YAMLError) as fault:
        raise UserError(f"{path} can't be read: {str(fault).splitlines()[0]}", mend="`mindrecipe runs ls` shows the other runs") from fault


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary in one piece: whoever reads it sees all of it or the one before."""
    text = json.dumps(plain(summary.as_dict()), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _derived(run_dir: Path) -> dict[str, Any]:
    lock = run_dir / LOCK
    if not lock.is_file():
        return {}
    derived: dict[str, Any] = json.loads(lock.read_text(encoding="utf-8"))["derived"]
    return derived
