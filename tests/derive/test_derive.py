"""Everything that follows from a configuration: nulls filled, what was written kept, steps and warm-up once the data is known."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mends import LARGE, MACHINE, TINY, quick
from mindrecipe.config.schema import ModelConfig, RunConfig
from mindrecipe.data.spec import DataFacts
from mindrecipe.derive import derive, pool_size
from mindrecipe.derive.machine import kind_in, this_machine
from mindrecipe.rules.device import SIZE

pytestmark = pytest.mark.usefixtures("here")


def facts(rows: int) -> DataFacts:
    return DataFacts(
        train_files=("/data/train.mindrecord",),
        heldout_files=(),
        columns=("input_ids",),
        train_rows=rows,
        heldout_rows=0,
        train_tokens=rows * 128,
        heldout_tokens=0,
        unigram_entropy=None,
        fingerprint="f",
    )


def test_what_was_written_stays_and_nulls_are_filled() -> None:
    run = quick(TINY, "amp.softmax_dtype=float16", "launch.threads_per_worker=1", "memory.max_device_memory=3GB")
    for section in dataclasses.fields(run.config):
        before, after = getattr(run.config, section.name), getattr(run.derived.config, section.name)
        if not dataclasses.is_dataclass(before):
            assert before == after
            continue
        for field in dataclasses.fields(before):
            written = getattr(before, field.name)
            if written is not None and (section.name, field.name) not in (("amp", "dtype"), ("device", "name"), ("dataset", "columns")):
                assert getattr(after, field.name) == written, (section.name, field.name)
    done = run.derived.config
    assert done.dataset.seed == done.run.seed == 42
    assert done.run.name == "llama2_tiny"
    assert done.dataset.tokenizer_vocab_size == done.model.vocab_size
    assert done.checkpoint.format == "ckpt" and quick("+model=qwen3_tiny").derived.config.checkpoint.format == "safetensors"
    assert (done.optimizer.betas, done.optimizer.eps) == ([0.9, 0.95], 1e-8)
    assert quick(TINY, "optimizer=sgd").derived.config.optimizer.betas is None


def test_deriving_twice_changes_nothing() -> None:
    for overrides in ((TINY,), LARGE, ("+model=qwen3_tiny", "amp=O2"), ("+recipe=llama2_70b_pretrain_64x64g",)):
        once = quick(*overrides).derived
        again = derive(once.config, MACHINE)
        assert dataclasses.replace(again, device_reason=None) == dataclasses.replace(once, device_reason=None)


@pytest.mark.parametrize(
    "overrides, device, reason",
    [
        ((TINY,), "cpu", "this machine has no NPU"),
        (LARGE, "ascend_910b", "parallel.mode=semi_auto needs NPUs"),
        (("+model=llama2_7b",), "ascend_910b", "6.7 billion parameters"),
        ((TINY, "parallel=hybrid"), "ascend_910b", "parallel.mode=hybrid needs NPUs"),
        ((TINY, "device=ascend_910a"), "ascend_910a", None),
        ((TINY, "parallel=semi_auto", "device=cpu"), "cpu", None),
    ],
)
def test_what_auto_means(overrides: tuple[str, ...], device: str, reason: str | None) -> None:
    derived = quick(*overrides).derived
    assert derived.hardware.name == derived.config.device.name == device
    assert (reason is None and derived.device_reason is None) or (reason and reason in (derived.device_reason or ""))


def test_the_npu_of_the_machine_is_taken() -> None:
    machine = dataclasses.replace(MACHINE, npu="ascend_910a", npu_count=8)
    assert derive(quick(TINY).config, machine).hardware.name == "ascend_910a"
    unknown = derive(quick(TINY).config, dataclasses.replace(MACHINE, npu="unknown", npu_count=8))
    assert unknown.hardware.name == "ascend_910b" and "npu-smi" in (unknown.device_reason or "")


@pytest.mark.parametrize(
    "rows, overrides, per_epoch",
    [
        (100, (), 6),
        (100, ("dataset.drop_remainder=false",), 7),
        (96, (), 6),
        # shards are padded by repeating, ceil(rows / shards) each
        (97, ("parallel=data", "launch.workers=2"), 3),
        (10, ("parallel=data", "launch.workers=2", "dataset.batch_size=1"), 5),
        (3, (), 0),
        (0, (), None),
    ],
)
def test_steps_of_an_epoch(rows: int, overrides: tuple[str, ...], per_epoch: int | None) -> None:
    run = quick(TINY, "dataset.batch_size=16", "schedule.total_steps=null", "schedule.epochs=3", *overrides).with_dataset(facts(rows))
    assert run.derived.steps_per_epoch == per_epoch
    assert run.derived.total_steps == (3 * per_epoch if per_epoch else None)


@given(st.integers(1, 10_000), st.floats(0, 1), st.none() | st.integers(0, 100))
def test_warm_up(total: int, ratio: float, steps: int | None) -> None:
    run = quick(
        TINY,
        f"schedule.total_steps={total}",
        f"schedule.warmup_ratio={ratio!r}",
        f"schedule.warmup_steps={steps if steps is not None else 'null'}",
    )
    assert run.derived.total_steps == total
    assert run.derived.warmup_steps == (steps if steps is not None else int(total * ratio))


def test_warm_up_follows_the_data() -> None:
    run = quick(TINY, "dataset.batch_size=16", "schedule.total_steps=null", "schedule.warmup_steps=null", "schedule.warmup_ratio=0.1")
    assert run.derived.warmup_steps is None
    assert run.with_dataset(facts(1600)).derived.warmup_steps == 10
    assert run.derived.warmup_steps is None, "a Run is immutable"


def test_tokens_and_peaks() -> None:
    derived = quick(*LARGE, "dataset.batch_size=2").derived
    assert derived.global_batch_size == 16 and derived.tokens_per_step == 16 * 4096
    assert derived.peak_flops == 312.5e12
    assert quick(*LARGE, "amp=O0").derived.peak_flops is None, "no fp32 peak is published"
    assert quick(*LARGE, "device.peak_tflops=100").derived.peak_flops == 100e12
    assert quick(TINY).derived.peak_flops is None


@given(st.floats(0.05, 512), st.floats(0, 0.9))
def test_pools_are_sizes_that_mindspore_reads(memory_gb: float, headroom: float) -> None:
    text = pool_size(memory_gb, headroom)
    assert text is not None and SIZE.fullmatch(text)
    assert float(text[:-2]) <= max(0.01, memory_gb * (1 - headroom))


def test_pool_of_no_memory() -> None:
    assert pool_size(None, 0.1) is None
    assert pool_size(64, 0.1) == "57GB" and pool_size(64, 0) == "64GB" and pool_size(1, 0.1) == "0.90GB"


_numbers = st.integers(1, 65536)
_models = st.builds(
    ModelConfig,
    family=st.sampled_from(["llama", "qwen3"]),
    seq_length=_numbers,
    num_layers=_numbers,
    hidden_size=_numbers,
    num_heads=_numbers,
    num_kv_heads=st.none() | _numbers,
    vocab_size=_numbers,
)


@given(_models)
def test_deriving_never_fails(model: ModelConfig) -> None:
    """What does not fit together is computed as well as it can be: the rules say what is wrong."""
    derived = derive(dataclasses.replace(RunConfig(), model=model), MACHINE)
    assert derived.parameters > 0 and derived.flops_per_token > 0
    assert math.isfinite(derived.flops_per_token)


@pytest.mark.parametrize(
    "name, memory, kind",
    [
        ("910B3", 65536, "ascend_910b"),
        ("Ascend910B1", 65536, "ascend_910b"),
        ("910B2C", 65536, "ascend_910b"),
        ("910B4", 32768, "ascend_910b4"),
        ("910B4-1", 65536, "ascend_910b"),
        ("910B", 65536, "ascend_910b"),
        ("910B", 32768, "ascend_910a"),
        ("910A", 32768, "ascend_910a"),
        ("910ProA", 32768, "ascend_910a"),
        ("910ProB", 32768, "ascend_910a"),
        ("910PremiumA", 32768, "ascend_910a"),
        ("Ascend910", 65536, "ascend_910c"),
        ("Ascend910_9391", 65536, "ascend_910c"),
        ("Ascend910", 32768, "unknown"),
        ("910B", 0, "unknown"),
        ("310P3", 21527, "unknown"),
        ("Ascend950PR", 131072, "unknown"),
    ],
)
def test_what_npu_smi_prints(name: str, memory: int, kind: str) -> None:
    """Tables as users of them have published them: the chip's line has one number more where a card has two chips (A3)."""
    for chip in ("0                         ", "0     0                   "):
        line = "+---------------------------+---------------+----------------------------------------------------+\n"
        listing = (
            f"{line}| npu-smi 24.1.rc3.7               Version: 24.1.rc3.7                                           |\n{line}"
            "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
            "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n"
            f"{line}| 0     {name:20}| OK            | 178.5       36                0    / 0             |\n"
            f"| {chip}| 0000:9D:00.0  | 0           2387 / 13553      51166/ {memory:<14}|\n{line}"
        )
        assert kind_in(listing) == kind


def test_no_listing_tells_no_kind() -> None:
    assert kind_in("") == kind_in("910B3 is not a line of the table") == "unknown"


@pytest.mark.parametrize(
    ("words", "machine", "threads"),
    [
        ((TINY,), {}, 2),
        ((TINY,), {"cpu_count": 1}, 1),
        ((TINY,), {"cpu_count": None}, 2),
        (LARGE, {"cpu_count": 1}, 2),
        (LARGE, {"cpu_count": 1, "npu": "ascend_910b", "npu_count": 8}, 1),
        ((TINY, "dataset.num_parallel_workers=7"), {"cpu_count": 1}, 7),
    ],
    ids=["two cores", "one core", "not looked at", "far from its cluster", "on its host", "written"],
)
def test_threads_that_read_are_no_more_than_the_cores(words: tuple[str, ...], machine: dict[str, Any], threads: int) -> None:
    """Those of the machine it runs on; a recipe for NPUs says the same wherever it is looked at."""
    assert derive(quick(*words).config, dataclasses.replace(MACHINE, **machine)).config.dataset.num_parallel_workers == threads


def test_this_machine() -> None:
    machine = this_machine()
    assert 1 <= machine.cores <= (machine.cpu_count or 0) and machine.memory_bytes > 2**28
    assert (machine.npu is None) == (machine.npu_count == 0)
