"""Where a value comes from: every place that had a say, in order, and what the value becomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mends import LARGE, TINY, quick, run_of
from mindrecipe.config.keys import knobs
from mindrecipe.config.options import options
from mindrecipe.config.search_path import GROUP
from mindrecipe.derive.reasons import REASONS
from mindrecipe.errors import UserError
from mindrecipe.explanation import differing, explain, history
from mindrecipe.paths import shipped
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
RECIPES = options(GROUP)


def steps(key: str, run: Run) -> list[tuple[str, str]]:
    return [(step.source, step.written) for step in history(key, run)]


def test_the_whole_way_of_a_value(here: Path) -> None:
    (here / "recipes").mkdir()
    (here / "recipes" / "mine.yaml").write_text(
        "defaults:\n  - override /model: llama2_tiny\nrun:\n  name: base\noptimizer:\n  learning_rate: 2e-3\n"
        "model:\n  name: ${run.name}_x\n  offset:\n    - 0\n",
        encoding="utf-8",
    )
    run = run_of("+recipe=mine", "optimizer.learning_rate=1e-3")
    found = explain("optimizer.learning_rate", run)
    tiny = shipped("conf") / "model" / "llama2_tiny.yaml"
    line = tiny.read_text(encoding="utf-8").splitlines().index("  learning_rate: 3.0e-3") + 1
    assert [(step.source, step.where, step.written) for step in found.history] == [
        ("default", None, "0.0003"),
        ("model=llama2_tiny", f"{tiny}:{line}", "3.0e-3"),
        ("recipe", "recipes/mine.yaml:6", "2e-3"),
        ("command line", "optimizer.learning_rate=1e-3", "1e-3"),
    ]
    assert found.value == 1e-3 and found.lowers_to["lr_schedule.learning_rate"] == 1e-3
    assert found.type == "number" and found.allowed == "more than 0" and found.doc
    assert steps("model.name", run)[-1] == ("recipe", "${run.name}_x (a reference)")
    assert run.config.model.name == "base_x"


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_value_that_was_filled_says_from_what(recipe: str) -> None:
    run = run_of(f"+recipe={recipe}", "launch.master_addr=10.0.0.1", "amp.dtype=auto")
    for key, value, last in differing(run):
        assert value is not None
        if last.source == "derived":
            assert key in REASONS, key
            reads, how = REASONS[key]
            assert how.split("(")[0].strip() in last.written or key == "device.name"
            assert all(read in (last.where or "") for read in reads)
        else:
            assert last.where, key


def test_what_is_filled_follows_from_what_it_says() -> None:
    """Each null that is filled changes, or may, when what it names changes: no key is named that it does not know."""
    known = {*knobs(), "recipe"}
    assert all(read in known for reads, _ in REASONS.values() for read in reads) and set(REASONS) <= set(knobs())


@pytest.mark.parametrize("key", knobs())
@pytest.mark.parametrize("base", [(TINY,), LARGE, ("+model=qwen3_tiny",)], ids=["tiny", "large", "mcore"])
def test_every_knob_can_be_explained(base: tuple[str, ...], key: str) -> None:
    found = explain(key, quick(*base))
    assert found.doc and found.type and found.history
    json.dumps(found.lowers_to, default=str)


@pytest.mark.parametrize(
    "base, key, native, value",
    [
        (LARGE, "parallel.model_parallel", "parallel_config.model_parallel", 1),
        (LARGE, "memory.max_device_memory", "context.max_device_memory", "57GB"),
        ((TINY,), "dataset.batch_size", "runner_config.batch_size", 8),
        ((TINY,), "run.seed", "seed", 42),
        ((TINY,), "model.num_layers", "model.model_config.num_layers", 4),
        ((TINY, "checkpoint.save_steps=100"), "checkpoint.save_steps", "callbacks[CheckpointMonitor].save_checkpoint_steps", 100),
    ],
)
def test_what_a_knob_lowers_to(base: tuple[str, ...], key: str, native: str, value: object) -> None:
    assert explain(key, quick(*base)).lowers_to[native] == value


def test_knobs_that_lower_to_nothing() -> None:
    assert explain("launch.master_port", quick(TINY)).lowers_to == {}
    assert explain("monitor.console", quick(TINY)).lowers_to == {}


def test_inside_a_free_mapping() -> None:
    run = run_of(TINY, "native.context.save_graphs=true", "optimizer.extra.momentum=0.9")
    assert explain("native.context.save_graphs", run).lowers_to == {"context.save_graphs": True}
    assert explain("optimizer.extra.momentum", run).history[-1].where == "++optimizer.extra.momentum=0.9"
    with pytest.raises(UserError, match="nothing sets"):
        explain("native.nothing", run)


def test_the_command(mindrecipe: Callable[..., object]) -> None:
    code, out, _ = mindrecipe("explain", "parallel.data_parallel", "+recipe=llama2_70b_pretrain_64x64g", "launch.master_addr=a")  # type: ignore[misc]
    assert code == 0 and "parallel.data_parallel = 2" in out and "launch.nodes=8" in out and "parallel_config.data_parallel: 2" in out
    code, out, _ = mindrecipe("explain", "+recipe=tiny_cpu", "--json")  # type: ignore[misc]
    assert code == 0 and json.loads(out)["schedule.warmup_steps"]["source"] == "derived"
    code, out, _ = mindrecipe("explain", "optimizer.learning_rate", "--json")  # type: ignore[misc]
    assert code == 0 and json.loads(out)[0]["default"] == 0.0003
    code, _, err = mindrecipe("explain", "tensor_parallel", "+recipe=tiny_cpu")  # type: ignore[misc]
    assert code == 2 and "mindrecipe explain parallel.model_parallel" in err
    code, _, err = mindrecipe("explain", "parallel")  # type: ignore[misc]
    assert code == 2 and "parallel.mode" in err
