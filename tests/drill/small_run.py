"""A training as small as it may be."""

from __future__ import annotations

SMALL = [
    "+model=llama2_tiny",
    "model.num_layers=1",
    "model.hidden_size=32",
    "model.num_heads=2",
    "model.seq_length=64",
    "dataset.tokenizer=bytes",
]
SMALL += ["model.vocab_size=512", "model.intermediate_size=null"]
