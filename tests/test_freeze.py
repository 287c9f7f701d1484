"""The run directory: whole or not there, never a merge; and the lock that says what it was made of."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import threading
import uuid
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mends import LARGE, MACHINE, TINY, quick
from mindrecipe.config.overrides import quoted
from mindrecipe.data.spec import DataFacts
from mindrecipe.derive import derive
from mindrecipe.errors import UserError
from mindrecipe.freeze import choose_dir, config_hash, derived_facts, freeze, to_yaml
from mindrecipe.lock import SCHEMA_VERSION, git_state
from mindrecipe.lower.place import Place, Resume
from mindrecipe.resume import Start
from mindrecipe.run import Run
from mindrecipe.runfiles import CONFIG, LOCK, NATIVE, OVERRIDES
from mindrecipe.worker.rundir import RunDir

pytestmark = pytest.mark.usefixtures("here")
FACTS = DataFacts(
    train_files=("/data/train.mindrecord",),
    heldout_files=("/data/heldout.mindrecord",),
    columns=("input_ids",),
    train_rows=1000,
    heldout_rows=100,
    train_tokens=128_000,
    heldout_tokens=12_800,
    unigram_entropy=4.5,
    fingerprint="abc123",
)


def ready(*overrides: str) -> Run:
    return quick(TINY, "schedule.total_steps=50", "schedule.warmup_steps=5", *overrides).with_dataset(FACTS)


def test_what_is_in_it(here: Path) -> None:
    run = ready("amp=O2", "native.a.b=1")
    path = run.freeze()
    assert path.parent == here / "runs" / "llama2_tiny" and path.is_absolute()
    assert sorted(entry.name for entry in path.iterdir()) == sorted(["checkpoint", CONFIG, LOCK, "logs", NATIVE, OVERRIDES])
    assert yaml.safe_load((path / CONFIG).read_text(encoding="utf-8")) == dataclasses.asdict(run.derived.config)
    assert yaml.safe_load((path / OVERRIDES).read_text(encoding="utf-8"))[0] == "model=llama2_tiny"
    native = yaml.safe_load((path / NATIVE).read_text(encoding="utf-8"))
    assert native["output_dir"] == str(path) and native["a"] == {"b": 1}
    assert native["train_dataset"]["data_loader"]["dataset_files"] == ["/data/train.mindrecord"]
    lock = json.loads((path / LOCK).read_text(encoding="utf-8"))
    assert lock["derived"]["total_steps"] == 50 and lock["derived"]["dataset"]["train_rows"] == 1000
    assert [entry for entry in here.rglob("*") if entry.name.startswith(".")] == [], "nothing half made is left"


def test_the_contract_of_lock_json() -> None:
    """What worker and launcher read (the contract between the parts)."""
    lock = json.loads((ready("parallel=data", "launch.workers=2").freeze() / LOCK).read_text(encoding="utf-8"))
    promised = [
        "device",
        "device_target",
        "device_num",
        "nodes",
        "devices_per_node",
        "data_parallel",
        "model_parallel",
        "context_parallel",
        "pipeline_stage",
        "global_batch_size",
        "tokens_per_step",
        "steps_per_epoch",
        "total_steps",
        "warmup_steps",
        "parameters",
        "flops_per_token",
        "peak_flops",
        "family",
        "architecture",
        "seed",
        "data_seed",
        "dataset",
        "resume",
        "origin",
    ]
    assert set(promised) <= set(lock["derived"])
    for key in ("git", "packages", "python", "machine", "config_hash", "dataset_hash", "command", "options", "cann", "driver", "created"):
        assert key in lock
    assert lock["schema"] == SCHEMA_VERSION and lock["dataset_hash"] == "abc123"
    assert lock["packages"]["mindspore"] and lock["packages"]["mindformers"] and lock["packages"]["hydra-core"]
    assert lock["derived"]["device_num"] == lock["derived"]["data_parallel"] == 2
    assert lock["derived"]["resume"] is None and lock["git"] is None


def test_what_a_resumed_run_says() -> None:
    resume = Resume(folder="/old/checkpoint", file_name="x-1_20.ckpt", step=20)
    path = ready().freeze(start=Start(resume=resume))
    lock = json.loads((path / LOCK).read_text(encoding="utf-8"))
    assert lock["derived"]["resume"] == {"checkpoint": "/old/checkpoint", "file": "x-1_20.ckpt", "step": 20}
    native = yaml.safe_load((path / NATIVE).read_text(encoding="utf-8"))
    assert native["resume_training"] == "x-1_20.ckpt" and native["callbacks"][0] == {"type": "TrainCallBack", "stop_step": 30}


def test_a_collision_is_an_error_never_a_merge(here: Path) -> None:
    run = ready("run.dir=mine")
    assert run.freeze() == here / "mine"
    before = {path: path.read_bytes() for path in (here / "mine").rglob("*") if path.is_file()}
    with pytest.raises(UserError) as told:
        run.freeze()
    assert "run directory mine exists" in told.value.what and told.value.where == "run.dir=mine"
    assert {path: path.read_bytes() for path in (here / "mine").rglob("*") if path.is_file()} == before
    with pytest.raises(UserError):
        ready("run.dir=mine").freeze(here / "mine")
    assert sorted(path.name for path in here.iterdir()) == ["mine"]


def test_names_are_free_ones(here: Path) -> None:
    run = ready("run.name=x")
    paths = [run.freeze() for _ in range(3)]
    assert len(set(paths)) == 3 and all(path.parent == here / "runs/x" for path in paths)


def test_two_at_once_never_share_one(here: Path) -> None:
    run = ready("run.dir=race")
    ended: list[object] = []

    def work() -> None:
        try:
            ended.append(run.freeze())
        except UserError as fault:
            ended.append(fault)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path for path in ended if isinstance(path, Path)] == [here / "race"]
    assert len(ended) == 8 and sorted(path.name for path in here.iterdir()) == ["race"]


@pytest.mark.parametrize("where", ["file/below", "/proc/nope/x", "/dev/null/x"])
def test_where_it_can_not_be(here: Path, where: str) -> None:
    (here / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError) as told:
        ready(f"run.dir={where}").freeze()
    assert "can't make the run directory" in told.value.what and told.value.mend
    assert sorted(path.name for path in here.iterdir()) == ["file"]


def test_a_fault_while_writing_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ready("run.dir=x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(UserError, match="No space left on device"):
        run.freeze()
    assert list(here.iterdir()) == []


def test_the_hash_is_of_what_decides_the_numbers() -> None:
    base = config_hash(ready().derived)
    for same in ("run.name=other", "run.dir=x", "launch.threads_per_worker=1", "monitor.log_steps=7", "run.tags=[a]"):
        assert config_hash(ready(same).derived) == base, same
    for other in (
        "run.seed=1",
        "model.num_layers=1",
        "optimizer.learning_rate=1e-3",
        "amp=O1",
        "native.a=1",
        "run.imports=[os]",
        "dataset.shuffle=false",
    ):
        assert config_hash(ready(other).derived) != base, other
    assert config_hash(ready("+run.seed=42").derived) == base, "resolved values, not how they were written"


def test_facts_are_plain_values() -> None:
    for derived in (ready().derived, quick(*LARGE).derived):
        facts = derived_facts(derived, None)
        assert json.loads(json.dumps(facts)) == facts | {"dataset": json.loads(json.dumps(facts["dataset"]))}
        assert yaml.safe_load(to_yaml(facts)) == json.loads(json.dumps(facts))


def test_choose_dir_expands_home(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    assert choose_dir(ready("'run.dir=\"~/x\"'".strip("'")).derived) == here / "home/x"
    assert choose_dir(ready("run.root=elsewhere").derived).parent == here / "elsewhere/llama2_tiny"


def test_freeze_of_odd_words(here: Path) -> None:
    freeze(here / "x", derive(quick(TINY).config, MACHINE), ("run.name=é 数", "a: b", "null"), {"a": 1e-8}, {"b": None})
    assert yaml.safe_load((here / "x" / OVERRIDES).read_text(encoding="utf-8")) == ["run.name=é 数", "a: b", "null"]
    assert (here / "x" / NATIVE).read_text(encoding="utf-8") == "a: 1.0e-08\n"


def test_git(here: Path) -> None:
    assert git_state(here) is None
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", "-C", str(here), *words], check=True)
    state = git_state(here)
    assert state is not None and len(state["commit"]) == 40 and state["dirty"] is False
    (here / "new").write_text("", encoding="utf-8")
    state = git_state(here)
    assert state is not None and state["dirty"] is True


_TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12)


@settings(max_examples=25)
@given(st.lists(_TEXTS, min_size=3, max_size=3), st.floats(1e-12, 1e3), st.integers(0, 2**31 - 1))
@example(["/d/a=b,c d#~", "数据(1)[2]{3}", "1e-5"], 1e-5, 10)
@example(["None", "null", "\\'\"\\"], 1e-12, 0)
@example(["08118", "1:30", "yes"], 0.1, 8)
def test_a_rank_gets_exactly_what_the_launcher_was_given(here: Path, texts: list[str], rate: float, seed: int) -> None:
    """From the command line, in the spelling our mends have, through Hydra and the run directory to what the worker reads."""
    name, variable, tag = texts
    if any("${" in text for text in texts):  # an interpolation is one, also in quotes
        return
    given_words = [
        "+model=llama2_tiny",
        f"checkpoint.load={quoted(name)}",
        f"launch.env.X={quoted(variable)}",
        f"run.tags=[{quoted(tag)}]",
        f"native.anything={quoted(tag)}",
        f"optimizer.learning_rate={rate!r}",
        f"run.seed={seed}",
    ]
    try:
        run = Run.from_overrides(given_words, machine=MACHINE)
    except UserError as fault:
        assert any(text in ("None", "Null", "NULL", "nil") for text in texts), fault
        return
    target = here / uuid.uuid4().hex
    place = Place(output_dir=str(target), train_files=("x.mindrecord",))
    freeze(target, run.derived, tuple(given_words), run.lower(place), {"derived": {}})
    read = RunDir.read(target)
    native = yaml.safe_load(read.native.read_text(encoding="utf-8"))
    assert read.config["checkpoint"]["load"] == name and read.config["launch"]["env"] == {"X": variable}
    assert read.config["run"]["tags"] == [tag] and native["anything"] == tag
    assert read.config["optimizer"]["learning_rate"] == rate and read.config["run"]["seed"] == seed
    assert yaml.safe_load((target / "overrides.yaml").read_text(encoding="utf-8")) == given_words


@pytest.mark.parametrize("what", ["a link to nothing", "a file"])
def test_what_is_in_the_way_of_the_folders_is_told_at_once(here: Path, what: str) -> None:
    """mkdir says of a link to nothing that it exists, and so did we, for ever."""
    if what == "a file":
        (here / "runs").write_text("")
    else:
        (here / "runs").symlink_to("/nowhere/runs")
    with pytest.raises(UserError, match=rf"can't make the run directory .*: {here / 'runs'} is (no folder|a link to /nowhere/runs, which)"):
        ready().freeze()
    assert [entry.name for entry in here.iterdir()] == ["runs"]


def test_a_run_dir_that_is_a_link_to_nothing_is_taken(here: Path) -> None:
    (here / "mine").symlink_to("/nowhere/run")
    with pytest.raises(UserError, match="run directory mine exists"):
        choose_dir(ready("run.dir=mine").derived)
