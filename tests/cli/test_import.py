"""`mindrecipe import`, `diff` and `dump` as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.samples import llama, write
from mindrecipe.cli.dump import resolved, shipped_recipes
from mindrecipe.config.search_path import use_config_dir
from mindrecipe.data.spec import DataFacts
from mindrecipe.run import Run

SNAPSHOTS = Path(__file__).resolve().parents[1] / "snapshots"
Command = Callable[..., Any]


@pytest.fixture
def native(here: Path) -> Path:
    return write(llama(), here)


def test_import_writes_a_recipe_that_checks_and_exports(mindrecipe: Command, native: Path, here: Path) -> None:
    said = mindrecipe("import", "native.yaml", "-o", "recipes/mine.yaml")
    assert said.code == 0
    assert "model=llama2_7b" in said.err
    assert "renamed since older versions" in said.err
    assert mindrecipe("export", "+recipe=mine", "-o", "again.yaml").code == 0
    assert mindrecipe("diff", "native.yaml", "again.yaml").code == 0
    assert mindrecipe("diff", "mine", "native.yaml").code == 0
    again = yaml.safe_load((here / "again.yaml").read_text(encoding="utf-8"))
    assert again["optimizer"] == llama()["optimizer"]


def test_import_without_a_target_prints_the_recipe(mindrecipe: Command, native: Path) -> None:
    said = mindrecipe("import", "native.yaml")
    assert yaml.safe_load(said.out)["defaults"][0] == {"override /model": "llama2_7b"}


def test_import_json(mindrecipe: Command, native: Path) -> None:
    report = json.loads(mindrecipe("import", "native.yaml", "--json").out)
    assert report["equal"] is True
    assert report["figures"]["global_batch_size"] == 64
    assert {"recognised", "passed", "dead", "renamed", "mended", "wrong", "effect", "differs", "text", "choices"} <= set(report)
    line = native.read_text(encoding="utf-8").splitlines().index("  beta1: 0.9") + 1
    assert {"key": "optimizer.beta1", "text": "as written", "value": 0.9, "line": line} in report["passed"]
    assert {"key": "callbacks.ObsMonitor", "text": "as written", "value": {"type": "ObsMonitor"}} in report["passed"]
    assert all(note["line"] for note in report["renamed"] if note["key"] == "optimizer.type")


def test_import_of_several_files(mindrecipe: Command, here: Path) -> None:
    write(llama(), here, "a.yaml")
    write({"run_mode": "predict", "model": {"model_config": {}}}, here, "b.yaml")
    said = mindrecipe("import", "a.yaml", "b.yaml", "-o", "recipes/", "--json")
    assert said.code == 2
    reports = json.loads(said.out)
    assert [report["equal"] for report in reports] == [True, False]
    assert "only fit for predict" in reports[1]["refused"]["what"]
    assert [path.name for path in (here / "recipes").iterdir()] == ["a.yaml"]


def test_import_refuses_in_one_message(mindrecipe: Command, here: Path) -> None:
    (here / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    said = mindrecipe("import", "bad.yaml")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: bad.yaml is a binary file")
    native = write(llama(), here)
    assert mindrecipe("import", str(native), "-o", "x.yaml").code == 0
    assert "exists" in mindrecipe("import", str(native), "-o", "x.yaml").err


def test_import_loads_neither_mindspore_nor_mindformers_nor_hydra(native: Path) -> None:
    code = (
        "import sys; from mindrecipe.cli.import_ import import_; from pathlib import Path; "
        "import_([Path('native.yaml')]); "
        "print([name for name in ('mindspore', 'mindformers') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=native.parent)
    assert done.stderr.splitlines()[-1] == "[]"


def test_diff_tells_effects_first(mindrecipe: Command, here: Path) -> None:
    write(llama(), here, "a.yaml")
    write(llama(runner_config__batch_size=2, recompute_config__recompute=False, processor={"type": "X"}), here, "b.yaml")
    said = mindrecipe("diff", "a.yaml", "b.yaml")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[2:4] == ["in effect", "  global batch: 64 -> 128 sequences"]
    assert "  recomputation: full -> none" in lines
    assert "  batch_size: 1 -> 2 sequences" in lines
    assert lines[-1].startswith("never read in training, so not compared: native.processor")
    told = json.loads(mindrecipe("diff", "a.yaml", "b.yaml", "--json").out)
    assert not told["equal"]
    assert told["effects"][0] == {"key": "global batch", "a": 64, "b": 128, "unit": "sequences"}
    assert {"section": "dataset", "key": "dataset.batch_size", "a": 1, "b": 2, "unit": "sequences"} in told["differences"]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"runner_wrapper__use_clip_grad": True},
        {"swap_config": {"swap": False}},
        {"optimizer__learning_rate": 0.5},
        {"processor": {"a": 1}},
    ],
)
def test_spelling_defaults_and_dead_keys_do_not_count(change: dict[str, Any], mindrecipe: Command, here: Path) -> None:
    write(llama(), here, "a.yaml")
    tree = llama(**change)
    write(dict(reversed(tree.items())), here, "b.yaml")
    said = mindrecipe("diff", "a.yaml", "b.yaml")
    assert said.code == 0, said.out


def test_diff_of_a_run_directory(mindrecipe: Command, here: Path) -> None:
    """Steps that were counted from its data set are no difference, and those that were asked for are."""
    facts = DataFacts(
        train_files=("t.mindrecord",),
        heldout_files=(),
        columns=("input_ids",),
        train_rows=640,
        heldout_rows=0,
        train_tokens=640 * 128,
        heldout_tokens=0,
        unigram_entropy=None,
        fingerprint="f",
    )
    words = ["+model=llama2_tiny", "device=cpu", "schedule.total_steps=null", "schedule.warmup_steps=null", "schedule.warmup_ratio=0.1"]
    Run.from_overrides(words).with_dataset(facts).freeze(here / "run")
    said = mindrecipe("diff", "run", " ".join(words))
    assert said.code == 0, said.out
    said = mindrecipe("diff", "run", " ".join([*words, "schedule.total_steps=7"]))
    assert said.code == 1
    assert "  steps: 1 epoch -> 7" in said.out.splitlines()


def test_diff_of_spellings_of_one_run(mindrecipe: Command, here: Path) -> None:
    one, other = "+model=llama2_7b amp=O2 device=ascend_910b", "+model=llama2_7b amp=O1 device=ascend_910b amp.softmax_dtype=bfloat16"
    assert mindrecipe("diff", one, f"{other} amp.rotary_dtype=bfloat16").code == 0
    assert mindrecipe("diff", one, other).code == 1
    for wrong in ("gone.yaml", "no_such_recipe", "."):
        assert mindrecipe("diff", one, wrong).code == 2


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_survives_the_round_trip(name: str, mindrecipe: Command, here: Path) -> None:
    assert mindrecipe("export", f"+recipe={name}", "-o", "native.yaml").code == 0
    assert (here / "native.yaml").read_text(encoding="utf-8").startswith("# mindformers 1.9.0 configuration, written by: mindrecipe export")
    said = mindrecipe("diff", name, "native.yaml")
    assert said.code == 0, said.out
    assert mindrecipe("import", "native.yaml", "-o", "recipes/back.yaml").code == 0
    assert mindrecipe("export", "+recipe=back", "-o", "back.yaml").code == 0
    assert yaml.safe_load((here / "back.yaml").read_text()) == yaml.safe_load((here / "native.yaml").read_text())
    first = mindrecipe("export", f"+recipe={name}", "--format", "json")
    assert json.loads(first.out) == yaml.safe_load((here / "native.yaml").read_text())


def test_dump_writes_every_shipped_recipe(mindrecipe: Command, here: Path) -> None:
    assert mindrecipe("dump", "--all", "-o", "dumped").code == 0
    assert sorted(path.stem for path in (here / "dumped").iterdir()) == shipped_recipes()
    assert mindrecipe("dump").code == 2


@pytest.mark.parametrize("name", shipped_recipes())
def test_snapshots(name: str, here: Path) -> None:
    """A change of conf/ that changes a shipped recipe shows here: `mindrecipe dump --all -o tests/snapshots` accepts it."""
    use_config_dir(None)
    assert resolved(name) == (SNAPSHOTS / f"{name}.yaml").read_text(encoding="utf-8")


def test_no_snapshot_is_left_over() -> None:
    assert sorted(path.stem for path in SNAPSHOTS.glob("*.yaml")) == shipped_recipes()
