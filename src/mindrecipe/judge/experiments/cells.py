"""One training of an experiment: run once, found again when the same command is given again."""

from __future__ import annotations

import hashlib
import json
import shlex
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.errors import UserError, UserErrors
from mindrecipe.judge import identity
from mindrecipe.judge.keeping import set_aside
from mindrecipe.judge.recorded import Recorded
from mindrecipe.judge.training import Training, finished, with_words
from mindrecipe.measure.curves import percentile

FEW = ("evaluate=off", "checkpoint=off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The figures of one training over its measured steps: seconds, tokens/s, bytes; ``fault`` says why there are none."""

    words: tuple[str, ...]
    step_times: tuple[float, ...] = ()
    tokens_per_step: int = 0
    memory_bytes: int | None = None
    final_loss: float | None = None
    fault: str | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """From the median step."""
        return self.tokens_per_step / statistics.median(self.step_times) if self.step_times else None

    @property
    def cost(self) -> float | None:
        """Microseconds a token."""
        speed = self.tokens_per_s
        return None if speed is None else 1e6 / speed

    def percentile(self, share: float) -> float | None:
        """Of the step times."""
        return percentile(self.step_times, share)


def folder_of(kind: str, words: Sequence[str], root: Path = Path("runs")) -> Path:
    """The folder of an experiment: the same command finds the same one."""
    return root / kind / hashlib.sha256(json.dumps(list(words)).encode()).hexdigest()[:10]


def measure_cell(words: Sequence[str], folder: Path, *, warm_up: int, steps: int, told: Callable[[str], None] = lambda _: None) -> Cell:
    """Train ``words`` for ``warm_up`` and ``steps`` measured steps in a process of its own, below ``folder``; what completed there before
    is not run again, as long as its words still make the same configuration and data set, and versions are the same. A training that
    fails is a cell with a fault, so is a completed one whose words can't be trained any more. UserError where a training of another
    process still runs there.
    """
    whole = with_words([*FEW, *words], f"schedule.total_steps={warm_up + steps}")
    path = folder.absolute() / hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:10]
    made_of = path.with_name(f"{path.name}.identity.json")
    run = finished(path)
    try:
        now: identity.Identity | None = identity.identity_of(whole)
    except UserError as fault:
        if run is not None:  # it is kept: a file may be there again tomorrow
            return Cell(words=tuple(words), fault=reason(fault))
        now = None  # a combination that can't be: its training says so
    if run is not None and now is not None:
        was = json.loads(made_of.read_text(encoding="utf-8")) if made_of.is_file() else None
        if (why := identity.changed(was, now, run.lock.get("dataset_hash"))) is not None:
            told(f"{shlex.join(words)} is measured again: {why}")
            set_aside(path, "stale")
            run = None
    if run is None:
        if path.exists():  # begun before, and not completed
            set_aside(path, "broken")
        path.parent.mkdir(parents=True, exist_ok=True)
        made_of.write_text(json.dumps(now) + "\n", encoding="utf-8")
        training = Training(whole, path)
        try:
            run = training.require_success()
        except UserError as fault:
            return Cell(words=tuple(words), fault=reason(fault))
        finally:
            training.stop()
    return of_run(run, words, warm_up)


def of_run(run: Recorded, words: Sequence[str], warm_up: int) -> Cell:
    """The figures of a completed training."""
    measured = [record for record in run.timed if record.step > warm_up]
    return Cell(
        words=tuple(words),
        step_times=tuple(record.step_time for record in measured),
        tokens_per_step=int(run.derived.get("tokens_per_step") or 0),
        memory_bytes=run.summary.get("peak_memory_bytes"),
        final_loss=run.summary.get("final_loss"),
    )


def reason(fault: UserError) -> str:
    """Why a training failed, in the one line of what it said that tells most."""
    if isinstance(fault, UserErrors):
        return reason(fault.faults[0])
    said = [line for line in fault.what.splitlines()[1:] if line.strip()] or [fault.what]
    return next((line for line in said if "error" in line.lower()), said[-1]).strip()[:160]


def values_of(word: str) -> tuple[str, list[str]] | None:
    """(key, values) of "key=a,b,c"; None for a word with one value. Commas in brackets and quotes divide nothing."""
    key, equals, text = word.partition("=")
    values, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and depth == 0:
            values.append(text[start:place])
            start = place + 1
    values.append(text[start:])
    return (key.lstrip("+"), values) if equals and len(values) > 1 else None
