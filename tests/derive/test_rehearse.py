"""rehearse=mini: smaller, of the same structure, sound, and nothing changed in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindrecipe.derive.machine import Machine
from mindrecipe.derive.rehearse import changes, mini
from mindrecipe.derive.rehearse_model import HEAD_DIM
from mindrecipe.paths import shipped
from mindrecipe.run import Run

HERE = Machine(npu=None, npu_count=0, memory_bytes=1 << 34, cores=2, cpu_count=2)
RECIPES = sorted(path.relative_to(shipped("recipes")).with_suffix("").as_posix() for path in Path(shipped("recipes")).rglob("*.yaml"))


def _rehearsal(*words: str) -> Run:
    return Run.from_overrides([*words, "rehearse=mini"], machine=HERE)


@pytest.mark.parametrize("simulated", [False, True], ids=["here", "simulated"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_rehearsed(recipe: str, simulated: bool) -> None:
    run = _rehearsal(f"+recipe={recipe}", *(["launch=simulate"] if simulated and not recipe.endswith("_cpu") else []))
    assert [finding for finding in run.check() if finding.severity == "error"] == []
    assert run.derived.parameters < 2e7
    assert run.derived.total_steps == 20


def test_the_structure_is_kept() -> None:
    whole = Run.from_overrides(["+recipe=llama2_70b_pretrain_64x64g"], machine=HERE).derived.config
    small = _rehearsal("+recipe=llama2_70b_pretrain_64x64g", "launch=simulate").derived.config
    assert small.model.num_heads // (small.model.num_kv_heads or 1) == whole.model.num_heads // (whole.model.num_kv_heads or 1)
    for key in ("mode", "pipeline_stage", "pipeline_interleave", "use_seq_parallel", "optimizer_parallel"):
        assert getattr(small.parallel, key) == getattr(whole.parallel, key)
    assert [stage > 0 for stage in small.recompute.layers] == [True] * 5 + [False] * 3
    assert (small.schedule.type, small.optimizer, small.amp) == (whole.schedule.type, whole.optimizer, whole.amp)
    assert small.model.num_layers % small.parallel.pipeline_stage == 0


def test_the_layers_a_pattern_counts_are_kept(here: Path) -> None:
    write = here / "recipes" / "selected.yaml"
    write.parent.mkdir()
    write.write_text(
        "# @package _global_\ndefaults:\n  - llama2_70b_pretrain_64x64g\n  - override /recompute: selective\n"
        "recompute:\n  layers: null\n  patterns:\n    feed_forward\\.mul: [10, 8, 6, 4, 2, 0, 0, 0]\n"
    )
    small = _rehearsal("+recipe=selected", "launch=simulate").derived.config
    assert [stage > 0 for stage in small.recompute.patterns[r"feed_forward\.mul"]] == [True] * 5 + [False] * 3


def test_everything_that_was_changed_is_listed() -> None:
    run = _rehearsal("+recipe=qwen3_32b_pretrain_16x64g", "launch=simulate")
    told = run.check()[-1]
    assert told.rule == "run.rehearse"
    for key in ("model.num_layers: 64 -> ", "model.vocab_size: 151936 -> 1024", "model.bos_token_id: 151643 -> "):
        assert key in told.what
    again, more = mini(run.config, npus=True)
    assert again == run.config
    assert more == ()


def test_a_cluster_s_threads_are_not_this_machine_s() -> None:
    run = _rehearsal("+recipe=llama2_7b_pretrain_8x64g", "dataset.num_parallel_workers=64")
    assert run.derived.config.dataset.num_parallel_workers == 2 and "environment.cores" not in {found.rule for found in run.check()}
    assert "dataset.num_parallel_workers: 64 -> None" in run.check()[-1].what


def test_uneven_stages_keep_a_layer_each() -> None:
    run = _rehearsal("+recipe=qwen3_32b_pretrain_16x64g", "launch=simulate")
    stages, offset = run.config.parallel.pipeline_stage, run.config.model.offset
    assert isinstance(offset, list)
    assert all(run.config.model.num_layers // stages + extra >= 1 for extra in offset)


def test_heads_are_shared_evenly() -> None:
    for recipe in RECIPES:
        config = _rehearsal(f"+recipe={recipe}").config
        assert config.model.hidden_size == config.model.num_heads * HEAD_DIM


def test_what_makes_experts_large_shrinks_too() -> None:
    config = Run.from_overrides(
        ["+model=qwen3_tiny", "+model.extra.num_experts=64", "+model.extra.moe_intermediate_size=768"], machine=HERE
    ).config
    small, changed = mini(config, npus=True)
    assert small.model.extra == {"num_experts": 8, "moe_intermediate_size": 64}
    assert {"model.extra.num_experts: 64 -> 8", "model.extra.moe_intermediate_size: 768 -> 64"} <= set(map(str, changed))


def test_a_dense_layer_before_those_with_experts_stays_one() -> None:
    """mindformers refuses more dense layers than there are, and groups that experts do not fill."""
    extra = {"first_k_dense_replace": 3, "n_routed_experts": 256, "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8}
    words = ["+model=qwen3_tiny", "model.num_layers=61", *(f"+model.extra.{key}={value}" for key, value in extra.items())]
    small, _ = mini(Run.from_overrides(words, machine=HERE).config, npus=True)
    assert small.model.extra == {"first_k_dense_replace": 1, "n_routed_experts": 8, "n_group": 2, "topk_group": 2, "num_experts_per_tok": 2}
    assert small.model.num_layers == 2


def test_no_change_is_no_change() -> None:
    config = Run.from_overrides(["+model=llama2_tiny"], machine=HERE).config
    assert changes(config, config) == []
