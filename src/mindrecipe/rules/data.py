"""Rules of the data set that need no look at its files (data/ looks at those)."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule


@rule(
    "dataset.files",
    "error",
    "there is nothing to read",
    outcome="stops",
    source="data/sources.py",
    reads="dataset: files source",
    fails=[f"{TINY} dataset=text", f"{TINY} dataset=mindrecord", f"{TINY} dataset.files=[a.txt]"],
    passes=[
        f"""{TINY} dataset=text 'dataset.files=["data/*.txt"]'""",
        f"""{TINY} dataset=mindrecord 'dataset.files=["data/*.mindrecord"]'""",
        f"{TINY} dataset.files=[a.txt] dataset=text",
    ],
)
def files(d: Derived) -> Iterator[Problem]:
    """A source of files has none, or files are given to a source that takes none."""
    data = d.config.dataset
    if data.source not in ("stdlib", "native") and not data.files:
        ending = "mindrecord" if data.source == "mindrecord" else "txt"
        yield Problem(f"dataset={data.source} needs files", ("dataset.source",), f"'dataset.files=[\"data/*.{ending}\"]'")
    if data.source == "stdlib" and (data.files or data.heldout_files):
        yield Problem("dataset.files has no effect with dataset=stdlib", ("dataset.files", "dataset.heldout_files"), "dataset=text")


@rule(
    "dataset.tokenizer_vocabulary",
    "error",
    "ids beyond the embedding would read memory that is not there",
    outcome="stops",
    source="run: input_indices should be in the range [0, 32), but got 35",
    reads="dataset: source tokenizer tokenizer_vocab_size; model: vocab_size",
    fails=[f"{TINY} dataset.tokenizer_vocab_size=2048", f"{TINY} model.vocab_size=100"],
    passes=[f"{TINY} dataset.tokenizer_vocab_size=null", f"{TINY} model.vocab_size=512"],
)
def tokenizer_vocabulary(d: Derived) -> Iterator[Problem]:
    """The tokenizer to be trained has more ids than the embedding, or fewer than bytes and special tokens need."""
    size, vocab = d.config.dataset.tokenizer_vocab_size or 0, d.config.model.vocab_size
    if d.config.dataset.source in ("mindrecord", "native") or d.config.dataset.tokenizer != "bpe":
        return
    if size > vocab:
        yield Problem(
            f"dataset.tokenizer_vocab_size={size} is more than model.vocab_size={vocab}",
            ("dataset.tokenizer_vocab_size", "model.vocab_size"),
            "dataset.tokenizer_vocab_size=null",
        )
    elif size < 260:
        yield Problem(
            f"a byte-level BPE needs at least 260 ids, model.vocab_size is {vocab}",
            ("model.vocab_size", "dataset.tokenizer"),
            "model.vocab_size=512",
        )


@rule(
    "dataset.shards",
    "error",
    "every rank would read the same shard",
    outcome="differs",
    source="mindformers dataset/base_dataset.py BaseDataset.init_dataset_config: shards follow the rank",
    reads="dataset: num_shards shard_id",
    fails=[
        f"{TINY} dataset.shard_id=1",
        f"{TINY} dataset.num_shards=2 dataset.shard_id=2",
        f"{TINY} parallel=data launch.workers=2 dataset.num_shards=4",
    ],
    passes=[
        f"{TINY} dataset.num_shards=2 dataset.shard_id=1",
        f"{TINY} dataset.num_shards=2 dataset.shard_id=0",
        f"{TINY} parallel=data launch.workers=2 dataset.num_shards=null dataset.shard_id=null",
    ],
)
def shards(d: Derived) -> Iterator[Problem]:
    """Shards are fixed by hand where each rank reads its own."""
    data, derived = d.config.dataset, d.batch.num_shards
    if data.num_shards is None and data.shard_id is None:
        return
    if d.device_num > 1:
        if data.num_shards not in (None, derived) or data.shard_id is not None:
            yield Problem(
                f"dataset.num_shards={data.num_shards} shard_id={data.shard_id}: with {d.device_num} ranks "
                f"there are {derived} shards and each rank reads its own",
                ("dataset.num_shards", "dataset.shard_id"),
                "dataset.num_shards=null dataset.shard_id=null",
            )
    elif data.num_shards is None or data.shard_id is None or data.shard_id >= data.num_shards:
        yield Problem(
            f"dataset.shard_id={data.shard_id} needs num_shards, and to be below it (num_shards={data.num_shards})",
            ("dataset.shard_id", "dataset.num_shards"),
            "dataset.num_shards=2 dataset.shard_id=0",
        )


@rule(
    "dataset.full_batch",
    "error",
    "mindformers needs a strategy for each column where ranks read their own shard",
    outcome="stops",
    source="mindformers trainer/base_trainer.py _check_global_batch_size_for_auto_parallel",
    reads="parallel: full_batch mode",
    fails=[f"{LARGE} parallel=auto parallel.full_batch=false"],
    passes=[f"{LARGE} parallel=auto parallel.full_batch=true"],
)
def full_batch(d: Derived) -> Iterator[Problem]:
    """Ranks read their own shards of a layout that MindSpore chooses."""
    p = d.config.parallel
    if p.mode in SHARDED and not p.full_batch and p.mode == "auto":
        yield Problem(
            "parallel.full_batch=false with parallel=auto: MindSpore chooses the layout, so no shard can be fixed",
            ("parallel.full_batch",),
            "parallel.full_batch=true",
        )
