"""Trains a byte-level BPE on the training split, and keeps it.

Another sequence length or layout of the same text does not train it again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from mindrecipe.data.pieces import pieces
from mindrecipe.data.shared import put_text, shared_folder
from mindrecipe.data.spec import DataSpec
from mindrecipe.data.split import Corpus
from mindrecipe.data.texts import text_bytes
from mindrecipe.data.vocabulary import special_ids, text_ids

# Merges hardly change beyond this much text, while training's memory grows with the number of different words
TRAINING_CHARACTERS = 16 << 20
VERSION = 1


def bpe_key(spec: DataSpec, corpus: Corpus) -> str:
    """Content hash of everything a trained BPE depends on."""
    sides = [[(corpus.digests[file.path], file.suffix) for file in corpus.train], corpus.text_fraction, spec.text_field]
    ids = [spec.tokenizer_vocab_size, sorted(special_ids(spec)), spec.eos_token_id, spec.pad_token_id]
    content = [VERSION, importlib.metadata.version("tokenizers"), TRAINING_CHARACTERS, sides, ids]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _sample(spec: DataSpec, corpus: Corpus, on_characters: Callable[[int, int], None]) -> Iterator[str]:
    """The training split, or every n-th piece of it where it is larger than TRAINING_CHARACTERS."""
    total = sum(text_bytes(file, spec.text_field) for file in corpus.train)
    stride, read, taken = max(-(-total // TRAINING_CHARACTERS), 1), 0, 0
    for number, piece in enumerate(pieces(corpus, spec.text_field, train_only=True)):
        read += len(piece.text)
        if number % stride == 0:
            taken += len(piece.text)
            on_characters(min(read, total), total)
            yield piece.text
        if taken >= TRAINING_CHARACTERS:
            break


def _name(number: int, spec: DataSpec) -> str:
    # a byte-level BPE splits letters from signs first, so it never learns a token of such a name from text
    return {1: "<s>", spec.pad_token_id: "<pad>", spec.eos_token_id: "</s>"}.get(number, f"<reserved_{number}>")


def _renumber(trained: str, spec: DataSpec, specials: list[int]) -> str:
    """The tokenizer.json ``trained`` without special tokens, its ids moved past the special ones, which are put in their places."""
    content = json.loads(trained)
    ordered = sorted(content["model"]["vocab"], key=content["model"]["vocab"].__getitem__)
    vocab = {_name(number, spec): number for number in specials}
    vocab |= dict(zip(ordered, text_ids(len(ordered), specials), strict=True))
    content["model"]["vocab"] = dict(sorted(vocab.items(), key=lambda item: item[1]))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = [{"id": number, "content": _name(number, spec), **flags} for number in specials]
    return json.dumps(content, ensure_ascii=False)


def train_bpe(spec: DataSpec, texts: Iterator[str]) -> str:
    """Train on ``texts``; returns a tokenizer.json with all ids below ``tokenizer_vocab_size``, special ones where the model has them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    specials = sorted(number for number in special_ids(spec) if number < spec.tokenizer_vocab_size)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=spec.tokenizer_vocab_size - len(specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _renumber(tokenizer.to_str(), spec, specials)


def cached_bpe(spec: DataSpec, corpus: Corpus, on_characters: Callable[[int, int], None]) -> str:
    """The tokenizer.json of this corpus, from ``cache_dir``/tokenizers or trained now.

    ``on_characters(read, total)`` follows the reading of the training split.
    """
    path = Path(spec.cache_dir, "tokenizers", f"{bpe_key(spec, corpus)}.json")
    if path.exists():
        return path.read_text(encoding="utf-8")
    shared_folder(spec.cache_dir, path.parent.name)
    text = train_bpe(spec, _sample(spec, corpus, on_characters))
    put_text(spec.cache_dir, path, text)
    return text
