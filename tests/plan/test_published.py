"""Rows of published tables: the accuracy that was promised, verdicts, and what is refused by name."""

from __future__ import annotations

import csv
import statistics
from pathlib import Path

import pytest

from mindrecipe.plan import words
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.published import Priced, price_row

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "published.csv"
ROW = {
    "source": "a table", "model": "llama-7b", "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "32", "ffn": "11008", "vocab": "32000",
    "seq": "4K", "micro_batch": "1", "global_batch": "256", "dp": "4", "tp": "2", "pp": "1", "cp": "1", "zero_or_fsdp": "distributed optimizer",
    "recompute": "none", "dtype": "bf16", "device": "A100 80GB", "n_devices": "8",
}  # fmt: skip


@pytest.fixture(scope="module")
def priced() -> list[Priced]:
    with FILE.open(newline="", encoding="utf-8") as stream:
        return [price_row(row, index) for index, row in enumerate(csv.DictReader(stream))]


def test_memory_is_near_for_four_of_five_rows(priced: list[Priced]) -> None:
    errors = [abs(row.memory_gib / row.stated_memory - 1) for row in priced if row.memory_gib and row.stated_memory]
    assert len(errors) >= 100 and sum(error <= 0.1 for error in errors) >= 0.8 * len(errors)


def test_what_ran_out_of_memory_never_fits(priced: list[Priced]) -> None:
    out = [row for row in priced if row.out_of_memory]
    assert len(out) == 2 and all(row.verdict == "does not fit" for row in out)


def test_throughput_is_near(priced: list[Priced]) -> None:
    errors = [abs(row.tokens_per_s / row.stated_tokens - 1) for row in priced if row.tokens_per_s and row.stated_tokens and not row.claim]
    assert len(errors) >= 350 and statistics.median(errors) < 0.15


def test_claims_above_the_peak_are_impossible(priced: list[Priced]) -> None:
    impossible = {row.row: row for row in priced if row.verdict == "impossible"}
    assert {row.model for row in impossible.values()} == {"Llama 3.1 70B", "Llama 3.1 405B", "gpt 18B", "InternLM2 20B"}
    assert all("TFLOP/s" in row.claim for row in impossible.values())


def test_every_row_is_priced_or_refused_by_name(priced: list[Priced]) -> None:
    for row in priced:
        assert row.refused or row.claim or (row.memory_gib and row.tokens_per_s), row


@pytest.mark.parametrize(
    "changes, verdict, part",
    [
        ({}, "fits", ""),
        ({"tokens_per_s_per_device": "9000"}, "impossible", "A100 80GB peaks at 312"),
        ({"tflops_per_device": "400"}, "impossible", "above the 312"),
        ({"peak_mem_gib": "95"}, "impossible", "more than the 80"),
        ({"mfu": "120"}, "impossible", "above the peak"),
        ({"recompute": ""}, "unknown", "recomputation is not stated"),
        ({"zero_or_fsdp": ""}, "unknown", "sharding of the replicas is not stated"),
        ({"layers": "320"}, "unknown", "layers of another kind"),
        ({"layers": "320", "model": "llama-70b"}, "does not fit", ""),
        ({"device": "V100 16GB"}, "does not fit", ""),
        ({"device": "V100 32GB", "zero_or_fsdp": "FSDP", "recompute": "full"}, "fits", ""),
        ({"model": "Qwen1.5-MoE-A2.7B"}, "unknown", "experts whose number and width are not stated"),
        ({"model": "T5-11B"}, "unknown", "an encoder and a decoder"),
        ({"model": "Mamba-7B"}, "unknown", "state-space layers"),
        ({"model": "BERT-large"}, "unknown", "an encoder, not a decoder"),
        ({"zero_or_fsdp": "sideways"}, "unknown", "zero_or_fsdp 'sideways' is not understood"),
        ({"recompute": "every 2nd layer"}, "unknown", "recompute 'every 2nd layer' is not understood"),
        ({"kv_heads": "7"}, "unknown", "7 key/value heads do not divide 32 heads"),
        ({"micro_batch": "0"}, "unknown", "a batch of 0 sequences"),
        ({"hidden": "inf"}, "unknown", "'inf' is no number"),
        ({"dp": "-1"}, "unknown", "-1 is below 0"),
        ({"peak_mem_gib": "30-40"}, "unknown", "'30-40' is no number"),
        ({"mfu": "fast"}, "unknown", "'fast' is no number"),
        ({"hidden": ""}, "unknown", "hidden"),
        ({"device": "Cerebras WSE"}, "unknown", "Cerebras"),
        ({"notes": "QLoRA fine-tuning"}, "unknown", "QLoRA"),
        ({"seq": ""}, "unknown", "sequence"),
        ({"layers": "many"}, "unknown", "'many' is no number"),
        ({"tp": "5"}, "unknown", "5 does not divide the 8 devices"),
        ({"tp": "5", "n_devices": ""}, "unknown", "tensor_parallel 5"),
        ({"dtype": "fp8"}, "fits", "float8"),
        ({"model": "llama-300b"}, "unknown", "experts whose number and width are not stated"),
    ],
)
def test_a_row(changes: dict[str, str], verdict: str, part: str) -> None:
    found = price_row({**ROW, **changes})
    assert found.verdict == verdict and part in f"{found.claim}{'; '.join(found.refused)}"
    assert (found.memory_gib is None) == (verdict == "unknown")


def test_short_and_long_rows() -> None:
    """csv gives None for cells that are missing, and a list under None for those that are too many."""
    found = price_row({**ROW, "notes": None, None: ["x"]})  # type: ignore[dict-item]
    assert found.verdict == "fits"
    assert price_row({}).verdict == "unknown" and price_row({}).refused


def test_a_row_that_ran_out_of_memory() -> None:
    assert price_row({**ROW, "notes": "OUTCOME: OOM"}).out_of_memory
    assert not price_row({**ROW, "notes": "too close to OOM"}).out_of_memory
    assert price_row({**ROW, "notes": "CUDA out of memory at step 1"}).out_of_memory
    for cell in ("peak_mem_gib", "tokens_per_s_per_device", "tflops_per_device", "mfu"):
        found = price_row({**ROW, cell: "OOM"})
        assert found.out_of_memory and found.memory_gib and found.stated_memory is None


def test_figures_with_their_units() -> None:
    found = price_row({**ROW, "peak_mem_gib": "~35 GB", "tokens_per_s_per_device": "3,500 tokens/s"})
    assert (found.stated_memory, found.stated_tokens) == (35, 3500)
    percent, share = price_row({**ROW, "mfu": "45%"}), price_row({**ROW, "mfu": "0.45"})
    assert percent.stated_tokens == share.stated_tokens and percent.stated_tokens


def test_devices_count_where_a_row_contradicts_itself() -> None:
    found = price_row({**ROW, "dp": "8"})
    assert found.memory_gib == price_row(ROW).memory_gib and "dp 8 contradicts 8 devices: 4 assumed" in found.assumed


@pytest.mark.parametrize(
    "text, name",
    [
        ("A100-40GB class (unstated)", "a100_40gb"), ("DGX H100 80GB", "h100_80gb"), ("DGX-GB200", "gb200"), ("V100", "v100_32gb"),
        ("Atlas 900 A2 PODc (910B 64GB)", "ascend_910b2"), ("Ascend 910B3", "ascend_910b3"), ("Atlas 900 A3 SuperPoD", "ascend_910c_package"),
        ("H200", "h200"), ("Ascend 910", "ascend_910a"),
    ],
)  # fmt: skip
def test_devices(text: str, name: str) -> None:
    assert words.device(text).name == name


def test_words() -> None:
    assert words.integer("8K") == 8192 and words.integer("1.5e3") == 1500 and words.integer("--") is None
    assert (
        words.sharding("FSDP FULL_SHARD") == "full" and words.sharding("ZeRO-1") == "optimizer" and words.sharding("ZeRO-2") == "gradients"
    )
    assert [words.sharding(text) for text in ("zero1", "stage 2", "ZeRO stage 3", "3", "DDP", "hybrid shard", "FSDP SHARD_GRAD_OP")] == [
        "optimizer", "gradients", "full", "full", "none", "full", "gradients",
    ]  # fmt: skip
    assert words.compute("MXFP8") == "float8" and words.compute("amp_bf16") == "bfloat16" and words.compute("NVFP4") == "float4"
    assert words.recompute("full uniform 1", 2)[0].policy == "full" and words.recompute("layers [13,5]+selective", 2)[0].full_layers == (
        13,
        5,
    )
    assert (
        words.parameters("181B", "gpt") == 181e9
        and words.parameters("", "Qwen2 7B") == 7e9
        and words.parameters("", "Mixtral 8x7B") is None
    )
    with pytest.raises(CannotPrice, match="TPU"):
        words.device("TPU v5p")
