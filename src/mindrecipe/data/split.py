"""Which texts are trained on and which are held out: decided by hashes, so the same everywhere and each time, and disjoint.

* Many files: a file is held out or not as a whole, by the hash of its relative path. Files with the same content stay together.
* Few files (fewer than one could be held out of): each text is held out or not by the hash of its content, so that a text that occurs
  twice is on one side only. The texts of a .txt are then blocks of whole lines.
* ``heldout_files`` were given: those, and nothing else; a file that is in both lists is not trained on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mindrecipe.data.digests import digests_of
from mindrecipe.data.sources import SourceFile, find_text_files, stat_files
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.stdlib import stdlib_files, stdlib_root
from mindrecipe.data.texts import probe
from mindrecipe.errors import UserError

PROBE_CHARACTERS = 1 << 22
PROBED_FILES = 256


@dataclass(frozen=True, slots=True)
class Corpus:
    """The source files of a data set and their split. ``text_fraction`` > 0: that share of the texts *inside* ``train`` is held out."""

    train: tuple[SourceFile, ...]
    heldout: tuple[SourceFile, ...]
    text_fraction: float
    digests: Mapping[str, str]

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """All files, those of the training split first."""
        return self.train + self.heldout


def unit_hash(key: str) -> float:
    """A number in [0, 1) that depends on ``key`` only."""
    return int.from_bytes(hashlib.sha256(key.encode(errors="surrogateescape")).digest()[:7], "big") / (1 << 56)


def split_files(
    files: Sequence[SourceFile], digests: Mapping[str, str], fraction: float
) -> tuple[tuple[SourceFile, ...], tuple[SourceFile, ...]]:
    """(train, held-out): by the hash of the relative path, equal files together, neither side empty where there are two different files."""
    first_name: dict[str, str] = {}
    for file in sorted(files, key=lambda file: file.name):
        first_name.setdefault(digests[file.path], file.name)
    place = {digest: unit_hash(name) for digest, name in first_name.items()}
    held = {digest for digest, value in place.items() if value < fraction}
    if not held and fraction > 0 and len(place) > 1:
        held = {min(place, key=lambda digest: place[digest])}
    if held and len(held) == len(place):
        held.discard(max(place, key=lambda digest: place[digest]))
    train = tuple(file for file in files if digests[file.path] not in held)
    return train, tuple(file for file in files if digests[file.path] in held)


@dataclass(slots=True)
class TextSplit:
    """Decides for one text after the other, by its content: held out or not.

    The first text is trained on and the first that differs from it is held out, so that neither side is empty; their copies follow them.
    """

    fraction: float
    _fixed: dict[bytes, bool] = field(default_factory=dict)

    def held_out(self, text: str) -> bool:
        """Whether ``text`` is held out."""
        if self.fraction <= 0:
            return False
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        if len(self._fixed) < 2:
            self._fixed.setdefault(digest, bool(self._fixed))
        fixed = self._fixed.get(digest)
        return int.from_bytes(digest, "big") < self.fraction * (1 << 64) if fixed is None else fixed


def _given_heldout(train: list[SourceFile], heldout: list[SourceFile], digests: Mapping[str, str]) -> Corpus:
    real = {os.path.realpath(file.path) for file in heldout}
    rest = tuple(file for file in train if os.path.realpath(file.path) not in real)
    if not rest:
        mend = "name files to train on in dataset.files"
        raise UserError("every file of dataset.files is held out", where="dataset.heldout_files", mend=mend)
    copies = {digests[file.path]: file.path for file in heldout}
    for file in rest:
        if copy := copies.get(digests[file.path]):
            raise UserError(f"held-out file {copy} has the same content as training file {file.path}", where=copy, mend="drop one of them")
    return Corpus(rest, tuple(heldout), 0.0, digests)


def _probe(files: Sequence[SourceFile], field: str) -> None:
    budget = PROBE_CHARACTERS
    for file in files[:PROBED_FILES]:
        budget -= probe(file, field, max(budget, 1))


def find_corpus(spec: DataSpec, *, look_inside: bool, on_bytes: Callable[[int, int], None] | None = None) -> Corpus:
    """The files of a "stdlib" or "text" data set, hashed and split.

    ``look_inside`` also reads the first texts of each, so that faults are found now and not in the builder. ``on_bytes(read, total)``
    follows the hashing.
    """
    if spec.source == "stdlib":
        root = stdlib_root()
        files, given = stat_files(stdlib_files(root), root), []
    else:
        files = stat_files(find_text_files(spec.files))
        given = stat_files(find_text_files(spec.heldout_files, "dataset.heldout_files")) if spec.heldout_files else []
    if look_inside and spec.source != "stdlib":
        _probe(files, spec.text_field)
        _probe(given, spec.text_field)
    digests = digests_of([*files, *given], spec.cache_dir, on_bytes)
    if given:
        return _given_heldout(files, given, digests)
    if spec.heldout_fraction > 0 and len(files) * spec.heldout_fraction < 1:
        return Corpus(tuple(files), (), spec.heldout_fraction, digests)
    train, heldout = split_files(files, digests, spec.heldout_fraction)
    return Corpus(train, heldout, 0.0, digests)
