"""The data set of a run, found or built before anything else is written: what it is made of, and its facts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mindrecipe.data import api
from mindrecipe.data.api import Progress
from mindrecipe.data.spec import DataFacts, DataSpec
from mindrecipe.derive import Derived
from mindrecipe.errors import UserError

__all__ = ["Progress", "cache_dir", "data_spec", "fingerprint", "prepare"]


def data_spec(derived: Derived) -> DataSpec:
    """Everything that decides the bytes of the data set of ``derived``; paths are taken from the folder the run is started in."""
    data, model = derived.config.dataset, derived.config.model
    return DataSpec(
        source=data.source,
        files=tuple(map(_absolute, data.files)),
        heldout_files=tuple(map(_absolute, data.heldout_files)),
        heldout_fraction=data.heldout_fraction,
        text_field=data.text_field,
        tokenizer=data.tokenizer if data.tokenizer in ("bpe", "bytes") else _absolute(data.tokenizer),
        tokenizer_vocab_size=data.tokenizer_vocab_size or model.vocab_size,
        vocab_size=model.vocab_size,
        seq_length=model.seq_length,
        layout=derived.family.layout,
        eos_token_id=model.eos_token_id,
        pad_token_id=model.pad_token_id,
        cache_dir=cache_dir(data.cache_dir),
        columns=tuple(data.columns) if data.source == "mindrecord" else (),
    )


def prepare(derived: Derived, on_progress: Callable[[Progress], None]) -> DataFacts:
    """The facts of the data set: looked up in the cache or built now. UserError for every fault of the files."""
    if derived.config.dataset.source == "native":
        raise UserError(
            "dataset=native leaves the data set to mindformers' own loaders: such a run can be checked and exported, not trained yet",
            mend="dataset=mindrecord or dataset=text with dataset.files; or `mindrecipe export`, and stock mindformers",
        )
    return api.prepare(data_spec(derived), on_progress)


def fingerprint(derived: Derived) -> str | None:
    """What :func:`prepare`'s facts are called by, without building anything; None for what mindformers' own loaders read."""
    return None if derived.config.dataset.source == "native" else api.fingerprint(data_spec(derived))


def cache_dir(given: str | None) -> str:
    """dataset.cache_dir, else $MINDRECIPE_CACHE, else ~/.cache/mindrecipe; absolute."""
    return _absolute(given or os.environ.get("MINDRECIPE_CACHE") or "~/.cache/mindrecipe")


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
