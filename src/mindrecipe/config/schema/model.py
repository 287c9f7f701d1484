"""The model and the data it reads: what is trained, on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema.knob import knob
from mindrecipe.config.schema.layout import MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Dimensions of a decoder-only language model, in the terms all families share.

    What only one family knows goes to ``extra`` and is handed to its ``model_config`` untouched.
    """

    name: str | None = knob(None, "Name of the model, used for the run directory and checkpoint prefix.")
    family: str | None = knob(
        None,
        "Model family: the mindformers class that is built; custom: any other, its model_config is `extra` and the dimensions in `keys`.",
        choices=("llama", "qwen3", "custom"),
    )
    architecture: str = knob("legacy", "custom: which of mindformers' two model libraries it is of.", choices=("legacy", "mcore"))
    seq_length: int = knob(2048, "Length of one training sequence.", unit="tokens", ge=1)
    num_layers: int = knob(32, "Transformer layers.", ge=1, le=MOST)
    hidden_size: int = knob(4096, "Width of the residual stream.", ge=1)
    num_heads: int = knob(32, "Attention (query) heads.", ge=1, le=MOST)
    num_kv_heads: int | None = knob(None, "Key/value heads of grouped-query attention; null: as many as num_heads.", ge=1, le=MOST)
    head_dim: int | None = knob(None, "Width of one head; null: hidden_size / num_heads.", ge=1)
    intermediate_size: int | None = knob(
        None, "Width of the feed-forward layer; null: the family's own rule (llama: 8/3 of hidden_size, rounded up to multiple_of).", ge=1
    )
    multiple_of: int = knob(256, "Rounding of a derived intermediate_size.", ge=1)
    ffn_dim_multiplier: float | None = knob(None, "Factor on a derived intermediate_size; null: none.", gt=0, le=1000)
    vocab_size: int = knob(32000, "Rows of the embedding; at least the number of token ids in the data.", ge=2)
    max_position_embeddings: int | None = knob(None, "Longest position the rotary table covers; null: seq_length.", ge=1)
    rms_norm_eps: float = knob(1.0e-5, "Epsilon of RMSNorm.", gt=0)
    rope_theta: float = knob(10000.0, "Base of the rotary position embedding.", gt=0)
    tie_word_embeddings: bool = knob(False, "Share the input embedding with the output layer.")
    init_std: float = knob(0.02, "Standard deviation of the initial weights.", gt=0)
    use_flash_attention: bool | None = knob(None, "Fused attention kernel; null: on where the device has it.")
    fused_rms_norm: bool | None = knob(None, "Fused RMSNorm kernel; null: on where the device has it.")
    bos_token_id: int = knob(1, "Id that begins a text.", ge=0)
    eos_token_id: int = knob(2, "Id that ends a text.", ge=0)
    pad_token_id: int = knob(0, "Id that fills a short row and is masked from the loss; -1: none.", ge=-1)
    offset: list[Any] | int = knob(
        0,
        "Layers a stage has more than num_layers // stages: a list of pipeline_stage numbers, or a list of such lists, one an interleave.",
    )
    keys: dict[str, Any] = knob(
        factory=dict, doc="custom: the key of model_config that each of our dimensions and dtypes is written to; only these are written."
    )
    extra: dict[str, Any] = knob(factory=dict, doc="Keys of the family's own model_config, passed through as they are.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfig:
    """Where tokens come from, how they are cut, and how ranks share them."""

    source: str = knob(
        "stdlib",
        "stdlib: the Python standard library's own source files; text: files of yours; mindrecord: ready MindRecord files; "
        "native: a data_loader of mindformers' own, given under native.train_dataset.data_loader.",
        choices=("stdlib", "text", "mindrecord", "native"),
    )
    files: list[str] = knob(factory=list, doc="Files or globs: .txt, .jsonl, .parquet for source=text; .mindrecord for source=mindrecord.")
    heldout_files: list[str] = knob(factory=list, doc="Files or globs that are held out from training; empty: a share of the files is.")
    heldout_fraction: float = knob(0.1, "Share of the source files (of the texts, where there is one file) that is held out.", ge=0, le=0.9)
    text_field: str = knob("text", "Field (.jsonl) or column (.parquet) that holds the text.")
    tokenizer: str = knob(
        "bpe", "bpe: a byte-level BPE trained on the training split and cached; bytes: one id a byte; or the path of a tokenizer.json."
    )
    tokenizer_vocab_size: int | None = knob(None, "Size of a trained BPE; null: model.vocab_size.", ge=260)
    batch_size: int = knob(1, "Micro batch: sequences one device computes at once.", unit="sequences", ge=1)
    shuffle: bool = knob(True, "Draw the rows in a new order each epoch.")
    seed: int | None = knob(None, "Seed of the row order; null: run.seed.", ge=0)
    drop_remainder: bool = knob(True, "Drop the last, incomplete batch of an epoch.")
    num_shards: int | None = knob(None, "Shards of the data; null: derived from the parallel mode.", ge=1)
    shard_id: int | None = knob(None, "Shard a rank reads; null: derived from its rank.", ge=0)
    num_parallel_workers: int | None = knob(
        None, "Threads that read and batch, at most as many as the host has cores; null: 2, or 1 on a host of one core.", ge=1
    )
    prefetch_size: int = knob(2, "Batches each operator of the pipeline keeps ready.", ge=1)
    columns: list[str] = knob(factory=list, doc="Columns to read from ready MindRecords; empty: those of the model family.")
    cache_dir: str | None = knob(None, "Where built MindRecords are kept; null: $MINDRECIPE_CACHE or ~/.cache/mindrecipe.")
