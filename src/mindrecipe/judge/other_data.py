"""Other data for an evaluation: what is asked for, cut for the run's model and tokenized as the run's own was.

Nothing of the run's data is mixed into it: neither its files, which are named from the folder it was started in, nor its split, beyond
which everything was trained on. Of its model only what decides the rows counts, as it was frozen: a recipe may be another one by now.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.config.findings import raise_errors
from mindrecipe.config.keys import knobs
from mindrecipe.config.overrides import plain
from mindrecipe.data.spec import DataFacts
from mindrecipe.errors import UserError
from mindrecipe.judge.recorded import Recorded

if TYPE_CHECKING:
    from mindrecipe.run import Run

#: what decides which rows are evaluated; all else of a data set (its batches, its order) is the run's
NAMES = ("source", "files", "heldout_files", "heldout_fraction", "text_field", "tokenizer", "cache_dir")
_KIND = ("dataset", "dataset.source")
_MODEL = ("family", "architecture", "vocab_size", "seq_length", "eos_token_id", "pad_token_id")


def prepared(run: Recorded, overrides: Sequence[str], told: Callable[[str], None]) -> DataFacts:
    """The data set that ``overrides`` name, found in the cache or built now. UserError where it has no held-out split, where they name
    none, and where the run's tokenizer is not known."""
    keys = [_key(word) for word in overrides]
    _require_data(overrides, keys)
    model, data = (run.config.get(section) or {} for section in ("model", "dataset"))
    words = [f"model.{name}={model[name]}" for name in _MODEL if model.get(name) is not None]
    words += [f"dataset.cache_dir={plain(str(data['cache_dir']))}"] if data.get("cache_dir") else []
    words += overrides
    asked = _compose(words)
    if asked.config.dataset.source in ("stdlib", "text"):
        own = None if "dataset.tokenizer" in keys else own_tokenizer(run)
        words += [] if own is None else [f"dataset.tokenizer={plain(own)}"]
        _require_known(run, own or asked.config.dataset.tokenizer)
    elif asked.config.dataset.source == "mindrecord" and data.get("columns"):
        words.append(f"dataset.columns=[{','.join(map(plain, data['columns']))}]")  # those that the run's network reads
    asked = _compose(words)
    # what the rules say of the rest is of no run that anybody asked for
    raise_errors([finding for finding in asked.check() if finding.keys and all(key.startswith("dataset.") for key in finding.keys)])
    phases = ""

    def tell(phase: str) -> None:
        nonlocal phases
        if phase != phases:
            told(f"data: {phase}")
        phases = phase

    dataset = asked.prepare(lambda progress: tell(progress.phase)).derived.dataset
    if dataset is None or not dataset.heldout_files:
        raise UserError("this data set has no held-out split", mend="dataset.heldout_files=[...] or dataset.heldout_fraction=0.5")
    return dataset


def own_tokenizer(run: Recorded) -> str | None:
    """The tokenizer.json that the run's text was tokenized with, or "bytes"; None for ready MindRecords. UserError where the file is
    gone."""
    facts, data = run.derived.get("dataset") or {}, run.config.get("dataset") or {}
    if facts.get("tokenizer"):
        file = str(facts["tokenizer"])
        if not Path(file).is_file():
            raise UserError(f"{run.path}: its tokenizer is gone: {file}", mend="dataset.tokenizer=<a copy of that file>")
        return file
    return "bytes" if data.get("source") in ("stdlib", "text") and data.get("tokenizer") == "bytes" else None


def _require_known(run: Recorded, tokenizer: str) -> None:
    """UserError for one that would be trained: its ids mean something else than those the run has seen."""
    if tokenizer == "bpe":
        raise UserError(
            f"{run.path}: the tokenizer of its data is not known here, and a new one would give other ids to the same text",
            where="dataset.tokenizer=bpe",
            mend="dataset.tokenizer=<the tokenizer.json that its data was made with>, or dataset.tokenizer=bytes",
        )


def _compose(words: Sequence[str]) -> Run:
    from mindrecipe.run import Run

    return Run.from_overrides(list(words))


def _require_data(overrides: Sequence[str], keys: Sequence[str]) -> None:
    """UserError for words that are not of the data, and where they don't say of what kind it is."""
    allowed = {*_KIND, *(f"dataset.{name}" for name in NAMES)}
    for word, key in zip(overrides, keys, strict=True):
        known = key in knobs() or not key.startswith("dataset.")  # of one that is unknown composing tells the nearest
        if known and key not in allowed:
            raise UserError(
                f"{word}: an evaluation takes the run as it was; only its data can be another",
                mend=f"dataset=..., dataset.KEY=... with KEY one of {', '.join(NAMES)}",
            )
    if not set(_KIND) & set(keys):
        kind = "mindrecord" if any("mindrecord" in word for word in overrides) else "text"
        whole = f"dataset={kind} {shlex.join(overrides)}"
        raise UserError(
            f"{shlex.join(overrides)}: this is a part of a data set: nothing of the run's own is mixed into another one",
            mend=whole if "dataset.files" in keys else "dataset=stdlib, or dataset=text with dataset.files",
        )


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0].partition("@")[0]
