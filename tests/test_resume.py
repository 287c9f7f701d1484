"""What a run starts from: what was asked for is found, fits, or is an error; silent training from scratch is none of the answers."""

from __future__ import annotations

import json
import os
import shlex
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from checkpoints.files import ckpt_entry, write_ckpt, write_iteration
from mends import quick
from mindrecipe.again import again
from mindrecipe.checkpoints import manifest
from mindrecipe.checkpoints.find import find
from mindrecipe.data.spec import DataFacts
from mindrecipe.ended import earlier_runs
from mindrecipe.errors import UserError
from mindrecipe.execute import _require_dir, resume_command
from mindrecipe.launch.claim import Claim
from mindrecipe.lower import Place
from mindrecipe.measure.record import event, to_line
from mindrecipe.resume import decide
from mindrecipe.run import Run
from mindrecipe.runfiles import LOCK

pytestmark = pytest.mark.usefixtures("here")
SMALL = (
    "model.num_layers=1",
    "model.hidden_size=8",
    "model.num_heads=2",
    "model.vocab_size=300",
    "model.intermediate_size=4",
    "model.seq_length=16",
)
SMALL += ("schedule.total_steps=50", "schedule.warmup_steps=5", "optimizer.learning_rate=1e-3")


def ready(*overrides: str, model: str = "llama2_tiny", fingerprint: str = "f", heldout: tuple[str, ...] = ()) -> Run:
    facts = DataFacts(
        train_files=("/d/x.mindrecord",), heldout_files=heldout, columns=("input_ids",), train_rows=1000, heldout_rows=0, train_tokens=1,
        heldout_tokens=0, unigram_entropy=None, fingerprint=fingerprint,
    )  # fmt: skip
    return quick(f"+model={model}", *SMALL, *overrides).with_dataset(facts)


def shapes(run: Run) -> dict[str, tuple[int, ...]]:
    """One tensor with as many numbers as the model has parameters, and Adam's moments, which do not count."""
    return {"all.weights": (run.derived.parameters,), "adam_m.all.weights": (3,), "adam_v.all.weights": (3,)}


def saved(run: Run, path: Path, step: int) -> Path:
    """A run directory of ``run`` at ``path`` with a checkpoint of ``step``."""
    if not path.exists():
        run.freeze(path)
    if run.derived.config.checkpoint.format == "ckpt":
        write_ckpt(path / "checkpoint" / "rank_0" / f"x_rank_0-1_{step}.ckpt", shapes(run), step=step)
    else:
        write_iteration(path / "checkpoint", step, {"all.weights": (run.derived.parameters,)})
    return path


def test_never_looks_at_nothing(here: Path) -> None:
    saved(ready(), here / "runs/llama2_tiny/a", 10)
    start = decide(ready().derived)
    assert (start.resume, start.said, start.continues) == (None, (), None)


@pytest.mark.parametrize("model", ["llama2_tiny", "qwen3_tiny"])
def test_auto_takes_the_newest_of_the_same_name(here: Path, model: str) -> None:
    start = decide(ready("checkpoint.resume=auto", model=model).derived)
    assert start.resume is None and "no checkpoint under" in start.said[0] and "from scratch" in start.said[0]
    run = ready(model=model)
    for number, (name, step) in enumerate([("a", 10), ("b", 20), ("c", 30)]):
        path = saved(run, here / "runs" / model / name, step)
        os.utime(path / LOCK, (1000 + number, 1000 + number))
    run.freeze(here / "runs" / model / "without")
    os.utime(here / "runs" / model / "a" / LOCK, (5000, 5000))
    start = decide(ready("checkpoint.resume=auto", model=model).derived)
    assert start.resume is not None and start.resume.step == 10 and start.continues == here / "runs" / model / "a"
    assert start.said[0].startswith("resuming from step 10: ")
    assert (start.resume.file_name is None) == (model == "qwen3_tiny")
    assert decide(ready("checkpoint.resume=must", model=model).derived) == start


def test_must_finds_or_fails() -> None:
    with pytest.raises(UserError, match="resume=must found no complete checkpoint") as told:
        decide(ready("checkpoint.resume=must").derived)
    assert told.value.mend and "checkpoint.resume=never" in told.value.mend


def test_a_finished_run_leaves_nothing_to_do(here: Path) -> None:
    """A scheduler that starts the same command again must be told, not refused."""
    path = saved(ready(), here / "exp1", 50)
    start = decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert start.finished == path and start.resume is None
    assert start.said[0] == f"nothing to do: {path} has trained to step 50 of 50 (to train on: schedule.total_steps=100)"
    longer = decide(ready("run.dir=exp1", "checkpoint.resume=auto", "schedule.total_steps=100").derived)
    assert longer.finished is None and longer.resume is not None and longer.resume.step == 50
    with pytest.raises(UserError, match="was another one: model.num_layers 1 -> 2"):
        decide(ready("run.dir=exp1", "checkpoint.resume=auto", "model.num_layers=2").derived)


def test_a_finished_run_without_checkpoints_is_known_by_its_summary(here: Path) -> None:
    ready().freeze(here / "exp1")
    (here / "exp1/summary.json").write_text('{"state": "completed", "steps": 50}')
    assert decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived).finished == here / "exp1"


def test_a_finished_run_that_kept_no_last_checkpoint_is_known_by_its_summary(here: Path) -> None:
    """checkpoint.save_final=false: the newest is of an earlier step, and nothing is left to train all the same."""
    finished(ready(), here / "exp1", 40)
    (here / "exp1/summary.json").write_text('{"state": "completed", "steps": 50}')
    assert decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived).finished == here / "exp1"


def test_a_finished_run_whose_last_checkpoint_is_damaged_is_not_finished(here: Path) -> None:
    finished(ready(), here / "exp1", 40)
    last = finished(ready(), here / "exp1", 50)
    (here / "exp1/summary.json").write_text('{"state": "completed", "steps": 50}')
    asked = ready("run.dir=exp1", "checkpoint.resume=auto")
    assert decide(asked.derived).finished == here / "exp1"
    change_a_byte(last)
    start = decide(asked.derived)
    assert start.finished is None and start.resume is not None and start.resume.step == 40
    assert "passed over x_rank_0-1_50.ckpt (its bytes are not those that were written" in start.said[1]
    change_a_byte(here / "exp1/checkpoint/rank_0/x_rank_0-1_40.ckpt")
    with pytest.raises(UserError, match="no complete checkpoint under"):
        decide(asked.derived)


def test_a_run_that_was_to_train_longer_is_not_evaluated_in_the_middle(here: Path) -> None:
    """What it was frozen for does not end here: nothing in its directory could make that evaluation."""
    held = here / "held.mindrecord"
    held.touch()
    saved(ready("run.dir=exp1", heldout=(str(held),)), here / "exp1", 30)
    for step in (30, 20):
        start = decide(ready("run.dir=exp1", "checkpoint.resume=auto", f"schedule.total_steps={step}", heldout=(str(held),)).derived)
        assert start.finished == here / "exp1" and not start.evaluates and "nothing to do" in start.said[0]


def test_what_was_evaluated_without_a_launcher_is_not_evaluated_again(here: Path) -> None:
    held = here / "held.mindrecord"
    held.touch()
    run = ready("run.dir=exp1", "checkpoint.resume=auto", heldout=(str(held),))
    path = saved(run, here / "exp1", 50)
    assert decide(run.derived).evaluates
    (path / "heldout").mkdir(exist_ok=True)
    (path / "heldout/rank_0.json").write_text('{"loss_sum": 1.0, "tokens": 2}')
    assert not decide(run.derived).evaluates
    (path / "heldout/rank_0.json").unlink()
    assert not decide(ready("run.dir=exp1", "checkpoint.resume=auto", "evaluate=off", heldout=(str(held),)).derived).evaluates


def test_checkpoints_that_somebody_took_away(here: Path) -> None:
    """A finished run stays finished; one that was not does not start from scratch unasked."""
    for name, steps in (("done", 50), ("half", 30)):
        last = finished(ready(), here / name, steps)
        last.unlink()
    (here / "done/summary.json").write_text('{"state": "completed", "steps": 50}')
    assert decide(ready("run.dir=done", "checkpoint.resume=auto").derived).finished == here / "done"
    with pytest.raises(UserError, match="the files of its checkpoints are gone"):
        decide(ready("run.dir=half", "checkpoint.resume=auto").derived)


def test_a_run_that_was_stopped_before_its_evaluation_has_that_left(here: Path) -> None:
    held = here / "held.mindrecord"
    held.touch()
    words = ("run.dir=exp1", "checkpoint.resume=auto")
    run = ready(*words, heldout=(str(held),))
    path = saved(run, here / "exp1", 50)
    for start in (decide(run.derived), again(run.derived, path, None)):
        assert start.finished == path and start.evaluates and start.resume is not None and start.resume.step == 50
        assert start.said[0].endswith("and was stopped before its end: only its evaluation is left")
    several = ready(*words, "parallel=data", "launch.nodes=2", "launch.devices_per_node=1", "checkpoint.strict=false", heldout=(str(held),))
    start = decide(several.derived)
    assert not start.evaluates and start.said[-1] == f"its held-out evaluation was not made: mindrecipe evaluate {path}"
    held.unlink()
    assert not decide(run.derived).evaluates, "its data is gone"
    held.touch()
    (path / "summary.json").write_text('{"state": "completed", "steps": 50}')
    assert not decide(run.derived).evaluates


def test_a_run_that_died_before_its_first_checkpoint_is_set_aside(here: Path) -> None:
    ready().freeze(here / "exp1")
    start = decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert start.replaces == here / "exp1" and start.resume is None
    (here / "mine").mkdir()
    assert decide(ready("run.dir=mine", "checkpoint.resume=auto").derived).replaces is None, "a folder that is no run is left alone"


def test_a_run_that_still_trains_is_left_alone(here: Path) -> None:
    path = saved(ready(), here / "exp1", 10)
    with Claim(path), pytest.raises(UserError, match=f"process {os.getpid()} trains in .*exp1 now"):
        decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived).resume is not None


def test_another_attempt_goes_on_in_the_same_directory(here: Path) -> None:
    run = ready("run.dir=exp1", "checkpoint.resume=auto")
    path = saved(run, here / "exp1", 10)
    with Claim(path):
        start = again(run.derived, path, None)
        assert start.resume is not None and start.resume.step == 10
        run.freeze_again(path, start)
        assert json.loads((path / LOCK).read_text())["derived"]["resume"]["step"] == 10
        assert "x_rank_0-1_10.ckpt" in (path / "mindformers.yaml").read_text()
        assert again(run.derived, path, 10).resume is None, "before its first checkpoint: from the beginning"
        (path / "checkpoint/rank_0/x_rank_0-1_10.ckpt").write_bytes(b"x")
        with pytest.raises(UserError, match="no complete checkpoint"):
            again(run.derived, path, None)


def test_another_attempt_without_checkpoints_starts_where_the_first_did(here: Path) -> None:
    old = saved(ready(), here / "old", 10)
    run = ready("checkpoint.resume=old", "run.dir=exp1")
    start = again(run.derived, run.freeze(here / "exp1"), None)
    assert start.resume is not None and start.resume.folder == str(old / "checkpoint")


def test_another_attempt_goes_on_from_what_all_ranks_have_finished(here: Path) -> None:
    """A rank was killed while it saved: that is no checkpoint, and no reason not to go on."""
    run = ready("run.dir=exp1")
    path = saved(run, here / "exp1", 10)
    folder = path / "checkpoint"
    manifest.begin(folder)
    assert again(run.derived, path, None).resume is None, "not finished: from the beginning"
    manifest.write(folder, manifest.make(folder, [folder / "rank_0/x_rank_0-1_10.ckpt"], step=10, rank=0, world=1))
    saved(run, path, 20)
    start = again(run.derived, path, None)
    assert start.resume is not None and start.resume.step == 10
    assert manifest.finished(folder, 2) == set(), "another rank's share is not there"


def test_a_step_can_be_asked_for(here: Path) -> None:
    for step in (10, 20):
        saved(ready(), here / "exp1", step)
    resume = decide(ready("run.dir=exp1", "checkpoint.resume=10").derived).resume
    assert resume is not None and resume.step == 10
    with pytest.raises(UserError, match="no earlier run has a complete checkpoint of step 15") as told:
        decide(ready("run.dir=exp1", "checkpoint.resume=15").derived)
    assert told.value.mend == "checkpoint.resume=20"


def saved_by_batches_of_8(path: Path, step: int) -> None:
    """A run directory ``path`` with a checkpoint that knows its batch, as mindformers writes it."""
    run = ready("dataset.batch_size=8")
    run.freeze(path)
    entries = [ckpt_entry(name, shape) for name, shape in shapes(run).items()]
    entries += [ckpt_entry(name, (1,), "Int32", struct.pack("<i", value)) for name, value in (("step_num", step), ("global_batch_size", 8))]
    file = path / f"checkpoint/rank_0/x_rank_0-1_{step}.ckpt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(entries))


@pytest.mark.parametrize(
    ("batch", "step", "begins", "moved"),
    [
        (4, 130, 260, ""),  # 1000 rows are 125 batches of 8, 250 of 4, 142 of 7
        (7, 130, 148, "row 42 of epoch 2, where the checkpoint was at row 40 of epoch 2"),
        (16, 11, 5, "row 80 of epoch 1, where the checkpoint was at row 88 of epoch 1"),
    ],
)
def test_where_the_batches_of_another_size_end_elsewhere_it_is_said(here: Path, batch: int, step: int, begins: int, moved: str) -> None:
    saved_by_batches_of_8(here / "exp1", step)
    asked = ready(f"dataset.batch_size={batch}", "checkpoint.resume=exp1", "checkpoint.strict=false", "schedule.total_steps=1000")
    start = decide(asked.derived)
    assert start.resume is not None and start.resume.step == begins
    assert (moved in start.said[0]) and (bool(moved) == ("batches end elsewhere" in start.said[0]))


def test_another_batch_size_keeps_the_place_in_the_data(here: Path) -> None:
    saved_by_batches_of_8(here / "exp1", 10)
    asked = ready("dataset.batch_size=4", "checkpoint.resume=exp1", "checkpoint.strict=false")
    start = decide(asked.derived)
    assert start.resume is not None and start.resume.step == 20
    assert "counted as step 20, since the global batch is another one" in start.said[0]
    resumed, whole = (asked.lower(Place(output_dir="/r", train_files=("x",), resume=each)) for each in (start.resume, None))
    assert resumed["callbacks"][0]["stop_step"] == 30
    assert resumed["lr_schedule"] == whole["lr_schedule"], "the learning rate knows nothing of what was resumed"


@pytest.mark.parametrize("run_dir", [None, "exp1", "a b"])
def test_the_command_that_goes_on_works_from_any_folder(here: Path, run_dir: str | None) -> None:
    given = [] if run_dir is None else [f"run.dir='{run_dir}'"]
    run = ready(*given)
    path = saved(run, here / (run_dir or "runs/llama2_tiny/x"), 10)
    (here / "elsewhere").mkdir()
    os.chdir(here / "elsewhere")
    words = shlex.split(resume_command(run.provenance.overrides, path, run_dir and str(here / run_dir)))
    assert words[0] == "train" and not [word for word in words if word.startswith("run.dir") and run_dir is None]
    facts = run.derived.dataset
    assert facts is not None
    start = decide(quick(*words[1:]).with_dataset(facts).derived)
    assert start.resume is not None and start.resume.folder == str(path / "checkpoint")


def test_the_folder_of_run_dir_and_those_made_after_it(here: Path) -> None:
    run = ready()
    for name in ("exp1", "exp1-2", "exp12", "exp1-x", "exp1-old-2"):
        saved(run, here / name, 10)
    found = earlier_runs(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert {path.name for path in found} == {"exp1", "exp1-2"}, "exp12 is another run"


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?b", "a b", "é数"])
def test_folders_with_odd_names(here: Path, name: str) -> None:
    saved(ready(), here / name, 10)
    start = decide(ready(f"run.dir='{name}'", "checkpoint.resume=auto").derived)
    assert start.resume is not None and start.resume.step == 10


def test_a_path_may_name_run_checkpoint_rank_or_file(here: Path) -> None:
    saved(ready(), here / "old", 10)
    newest = saved(ready(), here / "old", 20) / "checkpoint/rank_0/x_rank_0-1_20.ckpt"
    for path, step in (
        ("old", 20),
        ("old/checkpoint", 20),
        ("old/checkpoint/rank_0", 20),
        (newest, 20),
        (newest.with_name("x_rank_0-1_10.ckpt"), 10),
    ):
        resume = decide(ready(f"checkpoint.resume={path}").derived).resume
        assert resume is not None and resume.step == step
        assert resume.folder == str(here / "old/checkpoint") and resume.file_name == f"x_rank_0-1_{step}.ckpt"


def test_a_file_outside_of_a_rank_folder_can_not_be_resumed(here: Path) -> None:
    """mindformers looks for rank_0/ in a folder: a lone file would make it look in the wrong place."""
    write_ckpt(here / "alone" / "w.ckpt", shapes(ready()), step=3)
    with pytest.raises(UserError, match="is a file beside none") as told:
        decide(ready("checkpoint.resume=alone/w.ckpt").derived)
    assert told.value.mend == f"its weights only: checkpoint.load={here / 'alone/w.ckpt'}"
    assert decide(ready("checkpoint.load=alone/w.ckpt").derived).resume is None
    path = saved(ready(model="qwen3_tiny"), here / "q", 10) / "checkpoint/iteration_00000010"
    with pytest.raises(UserError) as told:
        decide(ready(f"checkpoint.resume={next(path.glob('*-model-*'))}", model="qwen3_tiny").derived)
    assert told.value.mend == f"checkpoint.resume={path}"


def test_a_broken_newest_is_passed_over_and_said(here: Path) -> None:
    saved(ready(), here / "old", 10)
    broken = saved(ready(), here / "old", 20) / "checkpoint/rank_0/x_rank_0-1_20.ckpt"
    broken.write_bytes(broken.read_bytes()[:100])
    start = decide(ready("checkpoint.resume=old").derived)
    assert start.resume is not None and start.resume.step == 10
    assert start.said[1].startswith("passed over x_rank_0-1_20.ckpt (it ends at byte 100")
    (here / "old/checkpoint/rank_0/x_rank_0-1_10.ckpt").unlink()
    with pytest.raises(UserError, match="no complete checkpoint under .*not whole: x_rank_0-1_20.ckpt"):
        decide(ready("checkpoint.resume=old").derived)


def finished(run: Run, path: Path, step: int) -> Path:
    """As the worker saves it: with a manifest. The file."""
    folder = saved(run, path, step) / "checkpoint"
    file = folder / f"rank_0/x_rank_0-1_{step}.ckpt"
    manifest.begin(folder)
    manifest.write(folder, manifest.make(folder, [file], step=step, rank=0, world=1))
    return file


def test_a_run_that_was_rolled_back_does_not_meet_what_it_left_behind(here: Path) -> None:
    """Neither in the attempt after the next nor in a later run; and what the next one saves is kept, not what lies beyond it."""
    run = ready("run.dir=exp1")
    for step in (10, 20, 25):
        finished(run, here / "exp1", step)
    path, folder = here / "exp1", here / "exp1/checkpoint"
    start = again(run.derived, path, 20)
    assert start.resume is not None and start.resume.step == 10
    assert start.said[-1] == f"checkpoints of later steps (20, 25) are now in {folder / 'aside_1'}"
    finished(run, path, 12)
    assert manifest.prune(folder, 1) == [10] and [each.step for each in find(path).complete] == [12]
    start = again(run.derived, path, None)
    assert start.resume is not None and start.resume.step == 12 and len(start.said) == 1
    later = decide(ready("run.dir=exp1", "checkpoint.resume=must").derived)
    assert later.resume is not None and later.resume.step == 12
    kept = decide(ready(f"checkpoint.resume={folder / 'aside_1'}").derived)
    assert kept.resume is not None and kept.resume.step == 25, "nothing is lost: who wants it can have it"


def test_a_broken_checkpoint_that_is_passed_over_pushes_no_good_one_out(here: Path) -> None:
    run = ready("run.dir=exp1")
    finished(run, here / "exp1", 10)
    change_a_byte(finished(run, here / "exp1", 20))
    start = again(run.derived, here / "exp1", None)
    assert start.resume is not None and start.resume.step == 10 and "(20) are now in" in start.said[-1]
    finished(run, here / "exp1", 12)
    assert manifest.prune(here / "exp1/checkpoint", 2) == []


def test_what_one_rank_had_finished_beyond_is_no_part_of_the_next_checkpoint(here: Path) -> None:
    """Rank 0 would finish step 20 anew, count the other's old share as its own time, and delete the last good one."""
    run = ready("run.dir=exp1", "parallel=data", "launch.workers=2")
    folder = run.freeze(here / "exp1") / "checkpoint"
    manifest.begin(folder)
    for step, rank in ((10, 0), (10, 1), (20, 1)):
        file = write_ckpt(folder / f"rank_{rank}/x_rank_{rank}-1_{step}.ckpt", shapes(run), step=step)
        manifest.write(folder, manifest.make(folder, [file], step=step, rank=rank, world=2))
    start = again(run.derived, here / "exp1", 20)
    assert start.resume is not None and start.resume.step == 10 and len(start.said) == 1
    assert set(manifest.read(folder)) == {10} and not file.exists()


@pytest.mark.parametrize("word", ["never", "auto"])
def test_a_roll_back_never_starts_from_scratch_in_silence(here: Path, word: str) -> None:
    run = ready("run.dir=exp1", f"checkpoint.resume={word}")
    finished(run, here / "exp1", 20)
    start = again(run.derived, here / "exp1", 20)
    assert start.resume is None and start.said[0] == "no checkpoint was saved before step 20: starting again where the run began"
    assert start.said[-1].startswith("checkpoints of later steps (20) are now in")
    told = [to_line(event("checkpoint", 0, 1, step=step)) for step in (10, 20)]
    (here / "exp1/logs/rank_0.events.jsonl").write_text("".join(told))
    finished(run, here / "exp1", 30)
    with pytest.raises(UserError, match="no checkpoint before step 30 under .*though one of step 10 was saved: it is gone"):
        again(run.derived, here / "exp1", 30)
    assert [each.step for each in find(here / "exp1").complete] == [30], "a refusal moves nothing"


def test_checkpoints_that_are_gone_are_told_before_another_attempt(here: Path) -> None:
    """Of a run that goes on from another: going back to where it began, steps behind what it had saved, is nothing to do in silence."""
    old = saved(ready(), here / "old", 10)
    run = ready("run.dir=exp1", "checkpoint.resume=old")
    for step in (20, 30):
        finished(run, here / "exp1", step).unlink()
    with pytest.raises(UserError, match="no checkpoint under .*though one of step 30 was saved: it is gone"):
        again(run.derived, here / "exp1", None)
    for written in (here / "exp1/checkpoint/manifests").iterdir():
        written.unlink()
    start = again(run.derived, here / "exp1", None)
    assert start.resume is not None and start.resume.folder == str(old / "checkpoint")


def test_what_was_set_aside_is_not_gone(here: Path) -> None:
    """Step 20 was gone back behind; the next attempt ends at step 30 before it has saved anything."""
    run = ready("run.dir=exp1")
    finished(run, here / "exp1", 20)
    (here / "exp1/logs/rank_0.events.jsonl").write_text(to_line(event("checkpoint", 0, 1, step=20)))
    assert again(run.derived, here / "exp1", 20).resume is None
    start = again(run.derived, here / "exp1", 30)
    assert start.resume is None and start.said[0].startswith("no checkpoint was saved before step 30")


def test_a_run_whose_restart_has_lost_everything_knows_where_it_went_on_from(here: Path) -> None:
    old = saved(ready(), here / "old", 10)
    run = ready("run.dir=exp1", "checkpoint.resume=old")
    saved(run, here / "exp1", 20)
    run.freeze_again(here / "exp1", again(run.derived, here / "exp1", None))
    for each in (here / "exp1/checkpoint/rank_0").iterdir():
        each.unlink()
    start = decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert start.resume is not None and start.resume.folder == str(old / "checkpoint") and start.replaces == here / "exp1"


def change_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("word", ["auto", "must", "10"])
@pytest.mark.parametrize("damage", [change_a_byte, lambda path: os.truncate(path, 100)], ids=["byte", "cut"])
def test_where_a_run_has_nothing_whole_an_earlier_one_is_taken_and_it_is_said(
    here: Path, word: str, damage: Callable[[Path], None]
) -> None:
    run = ready("run.dir=exp1")
    good = finished(run, here / "exp1", 10)
    bad = finished(run, here / "exp1-2", 10)
    os.utime(here / "exp1" / LOCK, (1000, 1000))
    damage(bad)
    start = decide(ready("run.dir=exp1", f"checkpoint.resume={word}").derived)
    assert start.continues == here / "exp1" and str(good) in start.said[0]
    assert word == "10" or f"in {bad.parent}" in start.said[1]
    damage(good)
    with pytest.raises(UserError, match="no (complete checkpoint under|earlier run has)"):  # never from scratch, unasked
        decide(ready("run.dir=exp1", f"checkpoint.resume={word}").derived)


def test_what_a_killed_process_left_of_its_first_checkpoint_is_none(here: Path) -> None:
    file = finished(ready(), here / "exp1", 10)
    os.truncate(file, 100)
    (here / "exp1/checkpoint/manifests/00000010.rank_0.json").unlink()
    start = decide(ready("run.dir=exp1", "checkpoint.resume=auto").derived)
    assert start.resume is None and start.replaces == here / "exp1"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"files": {}}', '{"files": {"a": 1}}'])
def test_a_manifest_that_can_not_be_read_is_told_and_its_files_stay(here: Path, content: str) -> None:
    for step in (10, 20):
        file = finished(ready(), here / "old", step)
    (here / "old/checkpoint/manifests/00000020.rank_0.json").write_text(content)
    start = decide(ready("checkpoint.resume=old").derived)
    assert start.resume is not None and start.resume.step == 10
    assert "passed over x_rank_0-1_20.ckpt (00000020.rank_0.json can't be read)" in start.said[1]
    assert manifest.remove_half_written(here / "old/checkpoint") == [] and file.exists()


def test_a_step_of_a_run_dir_that_exists_is_no_collision(here: Path) -> None:
    saved(ready(), here / "exp1", 10)
    _require_dir(ready("run.dir=exp1", "checkpoint.resume=10"))
    with pytest.raises(UserError, match="exists: a run never writes into another one's"):
        _require_dir(ready("run.dir=exp1", "checkpoint.resume=never"))


@pytest.mark.parametrize(
    "overrides, says, mend",
    [
        (("checkpoint.resume=autp",), "checkpoint.resume=autp does not exist", "checkpoint.resume=auto or "),
        (("checkpoint.resume=nowhere",), "checkpoint.resume=nowhere does not exist", "run directory or checkpoint folder"),
        (("checkpoint.resume=empty",), "no complete checkpoint under", "checkpoint.resume=never"),
        (("checkpoint.load=nowhere",), "nowhere does not exist", "a checkpoint file"),
        (("checkpoint.load=empty",), "empty: there is no checkpoint in it", "a checkpoint file"),
        (("checkpoint.resume=old", "model.num_layers=2"), "model.num_layers 1 -> 2", "checkpoint.strict=false"),
        (("checkpoint.resume=old", "dataset.batch_size=3"), "global batch 8 -> 3", "checkpoint.strict=false"),
        (("checkpoint.resume=old", "checkpoint.format=safetensors"), "the checkpoint is ckpt, and checkpoint.format is safetensors", "checkpoint.format=ckpt"),
        (("checkpoint.resume=old/checkpoint/rank_0", "model.tie_word_embeddings=true"), "model.tie_word_embeddings False -> True", "strict=false"),
        (("checkpoint.load=old", "model.num_layers=2"), "the checkpoint holds ", "checkpoint.strict=false"),
        (("checkpoint.resume=old", "schedule.total_steps=10"), "the checkpoint is of step 10, and the run ends at schedule.total_steps=10", "schedule.total_steps=20"),
        (("checkpoint.resume=old", "checkpoint.save_final=true", "run.seed=7", "model.seq_length=17", "dataset.batch_size=7"), "global batch", "the same settings"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(here: Path, overrides: tuple[str, ...], says: str, mend: str) -> None:
    saved(ready("dataset.batch_size=8"), here / "old", 10)
    (here / "empty").mkdir()
    with pytest.raises(UserError) as told:
        decide(ready("dataset.batch_size=8", *overrides).derived)
    assert says in told.value.what and mend in (told.value.mend or "")


def test_more_ranks_than_have_saved(here: Path) -> None:
    saved(ready(), here / "old", 10)
    two = ("parallel=data", "launch.workers=2", "checkpoint.resume=old/checkpoint/rank_0/x_rank_0-1_10.ckpt")
    with pytest.raises(UserError, match="ranks 1 -> 2"):
        decide(ready(*two).derived)
    assert decide(ready(*two, "checkpoint.strict=false").derived).resume is not None
    (here / "old/config.yaml").unlink()  # another program's
    with pytest.raises(UserError, match="saved by 1 ranks, and 2 are to go on from it") as told:
        decide(ready(*two).derived)
    assert "checkpoint.strict=false" in (told.value.mend or "")


@pytest.mark.parametrize("kind", ["ckpt", "safetensors"])
def test_a_copied_checkpoint_is_held_against_the_batch_and_the_ranks_it_tells(here: Path, kind: str) -> None:
    model = {"ckpt": "llama2_tiny", "safetensors": "qwen3_tiny"}[kind]
    if kind == "ckpt":
        saved_by_batches_of_8(here / "run", 10)
    else:
        folder = saved(ready("dataset.batch_size=8", model=model), here / "run", 10) / "checkpoint/iteration_00000010"
        (folder / "common.json").write_text('{"global_batch_size": 8, "step_num": 10}')
    (here / "run/checkpoint").rename(here / "copy")
    for words, strict in ((("dataset.batch_size=8",), True), (("dataset.batch_size=4",), False)):
        start = decide(ready(*words, "checkpoint.resume=copy", f"checkpoint.strict={strict}", model=model).derived)
        assert start.resume is not None and start.resume.step == (10 if strict else 20)
    with pytest.raises(UserError, match="was another one: global batch 8 -> 4") as told:
        decide(ready("dataset.batch_size=4", "checkpoint.resume=copy", model=model).derived)
    assert "checkpoint.strict=false" in (told.value.mend or "")
    if kind == "ckpt":
        two = here / "copy/rank_1"
        two.mkdir()
        (two / "x_rank_1-1_10.ckpt").write_bytes((here / "copy/rank_0/x_rank_0-1_10.ckpt").read_bytes())
        with pytest.raises(UserError, match="was another one: ranks 2 -> 1"):
            decide(ready("dataset.batch_size=8", "checkpoint.resume=copy").derived)


@pytest.mark.parametrize("content", ["", '{"step_num": 1', "[1]"])
def test_a_damaged_description_is_no_traceback(here: Path, content: str) -> None:
    run = saved(ready(model="qwen3_tiny"), here / "run", 10)
    (run / "checkpoint/iteration_00000010/common.json").write_text(content)
    with pytest.raises(UserError, match="not whole: iteration_00000010 .common.json is no JSON object"):
        decide(ready("checkpoint.resume=run", model="qwen3_tiny").derived)


def test_other_data_is_refused(here: Path) -> None:
    saved(ready(), here / "old", 10)
    with pytest.raises(UserError, match="data set f -> g"):
        decide(ready("checkpoint.resume=old", fingerprint="g").derived)


def test_strict_false_takes_what_fits(here: Path) -> None:
    saved(ready("dataset.batch_size=8"), here / "old", 10)
    start = decide(
        ready("checkpoint.resume=old", "model.num_layers=2", "dataset.batch_size=4", "checkpoint.strict=false", fingerprint="g").derived
    )
    assert start.resume is not None and start.resume.step == 10


def test_weights_to_load_are_looked_at(here: Path) -> None:
    saved(ready(), here / "old", 10)
    assert decide(ready("checkpoint.load=old").derived).resume is None
    broken = here / "old/checkpoint/rank_0/x_rank_0-1_10.ckpt"
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(UserError, match="is not whole"):
        decide(ready("checkpoint.load=old").derived)


@pytest.mark.parametrize(
    "file, content", [("lock.json", "{"), ("lock.json", "[]"), ("config.yaml", "a: ["), ("config.yaml", "x: 1\n"), ("lock.json", "{}")]
)
def test_a_damaged_run_directory_is_told(here: Path, file: str, content: str) -> None:
    path = saved(ready(), here / "old", 10)
    (path / file).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="can't be read") as told:
        decide(ready("checkpoint.resume=old").derived)
    assert told.value.mend and "checkpoint.strict=false" in told.value.mend
    for batch in (8, 4):
        assert decide(ready("checkpoint.resume=old", "checkpoint.strict=false", f"dataset.batch_size={batch}").derived).resume is not None


def test_a_lock_of_an_earlier_version_without_a_key(here: Path) -> None:
    path = saved(ready(), here / "old", 10)
    lock = json.loads((path / LOCK).read_text(encoding="utf-8"))
    assert lock["derived"]["global_batch_size"] == ready().derived.global_batch_size
    assert decide(ready("checkpoint.resume=old").derived).resume is not None
