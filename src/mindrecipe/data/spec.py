"""The data set of a run as plain values: what to build (DataSpec), and what came out (DataFacts).

Both travel as JSON between the launcher, which never imports mindspore, and the builder process, which does.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = {"shifted": ("input_ids",), "labelled": ("input_ids", "labels", "loss_mask")}
LAYOUTS = tuple(COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSpec:
    """Everything that decides the bytes of the built MindRecords.

    ``layout`` "shifted": one column input_ids int32[seq_length + 1], the model shifts (mindformers' legacy models);
    "labelled": input_ids, labels and loss_mask, each int32[seq_length], as mindformers' mcore models read them.
    Paths are absolute. ``vocab_size`` bounds every id. ``columns``: of ready MindRecords, those to read; empty: the layout's.
    """

    source: str
    files: tuple[str, ...]
    heldout_files: tuple[str, ...]
    heldout_fraction: float
    text_field: str
    tokenizer: str
    tokenizer_vocab_size: int
    vocab_size: int
    seq_length: int
    layout: str
    eos_token_id: int
    pad_token_id: int
    cache_dir: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """What a built (or ready) data set is: files, rows, tokens, and its content hash.

    ``unigram_entropy`` (nats a token, of the held-out split under the training split's unigram counts with add-one smoothing) is what a
    model that ignores context reaches: training that works ends well below it. Null for ready MindRecords and where nothing is held out.
    Tokens are targets: ids a row predicts and the loss counts. ``tokenizer`` is the tokenizer.json the rows were made with, null for bytes
    and ready MindRecords.
    """

    train_files: tuple[str, ...]
    heldout_files: tuple[str, ...]
    columns: tuple[str, ...]
    train_rows: int
    heldout_rows: int
    train_tokens: int
    heldout_tokens: int
    unigram_entropy: float | None
    fingerprint: str
    tokenizer: str | None = None
