"""What a run starts from: checkpoint.resume and checkpoint.load, decided before anything is written.

A resumed run has a run directory of its own: nothing of the earlier one is changed. `auto` and `must` look at run.dir where it
is given, else at the newest earlier run of the same name; what is found is compared with what is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from mindrecipe.checkpoints.find import Checkpoint, Found, find, trusted
from mindrecipe.derive import Derived
from mindrecipe.ended import earlier_runs, evaluation_is_missing, files_are_gone, had_some, last_is_lost, summary_of
from mindrecipe.errors import UserError
from mindrecipe.fit import check_batch, check_layout, check_parameters, check_ranks, check_same_run, first_step, story
from mindrecipe.launch.claim import holder, taken
from mindrecipe.lower.place import Resume
from mindrecipe.measure.artifacts import origin_of
from mindrecipe.runfiles import LOCK


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run starts: ``resume`` None is from scratch, or from the weights in ``load`` (what mindformers is to be given).

    ``said`` tells the user which it was; ``continues`` is the run directory that resume=auto or must found, ``finished`` one in
    which there is nothing left to train; there ``evaluates`` says that its held-out evaluation is to be made, of the weights in ``resume``.
    ``replaces`` is a run directory to set aside: its run died before its first checkpoint.
    """

    resume: Resume | None = None
    said: tuple[str, ...] = ()
    continues: Path | None = None
    load: str | None = None
    finished: Path | None = None
    evaluates: bool = False
    replaces: Path | None = None


def decide(derived: Derived, own: Path | None = None) -> Start:
    """Read checkpoint.resume and checkpoint.load. UserError where what was asked for is not there or does not fit.

    ``own`` is the run's directory where it has one already: earlier runs are looked at, not itself.
    """
    given = derived.config.checkpoint
    load = _load(derived, Path(given.load).expanduser().absolute()) if given.load is not None else None
    if given.resume == "never":
        return Start(load=load)
    if given.resume in ("auto", "must"):
        return _automatic(derived, must=given.resume == "must", load=load, own=own)
    if given.resume.isdigit():
        return _of_step(derived, int(given.resume), own)
    path = Path(given.resume).expanduser()
    if not path.exists():
        words = [f"checkpoint.resume={word}" for word in get_close_matches(given.resume, ("auto", "must", "never"), 1)]
        mend = " or ".join([*words, "the run directory or checkpoint folder to go on from"])
        raise UserError(f"checkpoint.resume={given.resume} does not exist", mend=mend)
    return _from_path(derived, path.absolute())


def _automatic(derived: Derived, must: bool, load: str | None, own: Path | None) -> Start:
    """A scheduler that starts the same command again and again must get on with each start, and be told (exit code 0) when all is done."""
    looked = [run for run in earlier_runs(derived) if run != own]
    broken: list[tuple[Path, str]] = []
    for run in looked:
        if holder(run) is not None:
            raise taken(run)
        if (done := _finished(derived, run)) is not None:
            return done
        found = trusted(find(run))
        if found.complete:
            start = begin_from(derived, run, Found(found.complete, (*broken, *found.broken)))
            return replace(start, continues=run)
        broken += found.broken if had_some(derived, run) else ()
        if not found.broken and files_are_gone(derived, run):
            broken.append((run, "the files of its checkpoints are gone"))
    place = str(derived.config.run.dir or Path(derived.config.run.root) / (derived.config.run.name or ""))
    if broken:
        raise not_whole(place, broken)
    dead = Path(derived.config.run.dir).expanduser().absolute() if derived.config.run.dir is not None else None
    replaces = dead if dead in looked else None
    died = own or next(iter(looked), None)
    if died is not None and (origin := _origin(died)) is not None:
        start = _from_path(derived, origin.path)
        said = f"{died} has no checkpoint, and had itself gone on from step {origin.step} of another run"
        return replace(start, said=(said, *start.said), replaces=replaces)
    if must:
        raise UserError(
            f"checkpoint.resume=must found no complete checkpoint under {place} ({len(looked)} earlier runs)",
            mend="checkpoint.resume=never to start from scratch",
        )
    begins = f"starting from the weights in {load}" if load else "starting from scratch"
    said = f"resume=auto: no checkpoint under {place}, {begins}"
    return Start(said=(said,), load=load, replaces=replaces)


def _origin(run: Path) -> Resume | None:
    """The checkpoint of another run that ``run`` was started from, a place that was once asked for by name; None: it began from scratch."""
    try:
        found = origin_of(run)
        origin = Resume(folder=found["checkpoint"], file_name=found["file"], step=found["step"]) if found else None
    except (ValueError, KeyError, TypeError) as fault:
        raise UserError(
            f"{run / LOCK} can't be read, which says what the run there was started from: {fault}",
            mend="another run.dir, with checkpoint.resume=<the run directory or checkpoint folder to go on from>, or never",
        ) from fault
    return None if origin is None or run in origin.path.parents else origin


def _of_step(derived: Derived, step: int, own: Path | None) -> Start:
    """checkpoint.resume=<step>: of the newest earlier run that has it."""
    looked = [run for run in earlier_runs(derived) if run != own]
    broken: list[tuple[Path, str]] = []
    for run in looked:
        if holder(run) is not None:
            raise taken(run)
        found = trusted(Found(only(find(run), step, None).complete, ()))
        if found.complete:
            return replace(begin_from(derived, run, Found(found.complete, (*broken, *found.broken))), continues=run)
        broken += found.broken
    there = sorted({each.step for run in looked for each in find(run).complete if each.step != step})
    told = f"; not whole: {_told(*broken[-1])}" if broken else ""
    raise UserError(
        f"checkpoint.resume={step}: no earlier run has a complete checkpoint of step {step}{told}",
        mend=f"checkpoint.resume={there[-1]}" if there else "checkpoint.resume=never to start from scratch",
    )


def nothing_to_do(derived: Derived) -> Start | None:
    """Where resume=auto or must finds the run finished, told without a look at where it would go on from else."""
    if derived.config.checkpoint.resume not in ("auto", "must"):
        return None
    found = (_finished(derived, run) for run in earlier_runs(derived) if holder(run) is None)
    return next((done for done in found if done is not None), None)


def _finished(derived: Derived, run: Path) -> Start | None:
    """Whether ``run`` has trained all the steps that are asked for: what is left to do then, and what to tell.

    Its last checkpoint is read whole: a damaged one is no end, the steps from the one before it on are trained again.
    """
    total = derived.total_steps
    if total is None:
        return None
    found = find(run)
    if found.complete and found.complete[-1].step >= total:
        found = trusted(found)
    ended = summary_of(run)
    step = found.complete[-1].step if found.complete else 0
    if ended.get("state") == "completed" and not last_is_lost(derived, run, found, total):  # checkpoint.save_final=false, checkpoint=off
        step = max(step, ended.get("steps", 0))
    if step < total:
        return None
    check_same_run(derived, run)
    done = f"nothing to do: {run} has trained to step {step} of {total} (to train on: schedule.total_steps={2 * step})"
    if not evaluation_is_missing(derived, run, step):
        return Start(said=(done,), finished=run)
    if derived.config.launch.nodes > 1 or not found.complete:  # several hosts would have to agree on it before they have met
        return Start(said=(done, f"its held-out evaluation was not made: mindrecipe evaluate {run}"), finished=run)
    return trained_out(derived, run, found.complete[-1])


def trained_out(derived: Derived, run: Path, last: Checkpoint) -> Start:
    """``run`` was stopped between its last checkpoint and its end: the held-out evaluation, if there is one, and the summary are left."""
    said = f"{run} has trained to step {last.step} of {derived.total_steps}, and was stopped before its end: only its evaluation is left"
    return Start(Resume(folder=str(last.folder), file_name=last.file_name, step=last.step), (said,), finished=run, evaluates=True)


def _from_path(derived: Derived, path: Path) -> Start:
    if path.is_file() and not re.fullmatch(r"rank_\d+", path.parent.name):
        raise UserError(
            f"mindformers resumes from a folder with rank_0/ or iteration_<step>/ in it, and {path} is a file beside none",
            mend=f"checkpoint.resume={path.parent}" if find(path.parent).complete else f"its weights only: checkpoint.load={path}",
        )
    found = trusted(find(path))
    if not found.complete:
        beside = path.is_file() and len(find(path.parent).complete) > 1
        raise not_whole(path, found.broken, mend=f"checkpoint.resume={path.parent}" if beside else None)
    return begin_from(derived, path, found)


def not_whole(place: Path | str, broken: Sequence[tuple[Path, str]], mend: str | None = None) -> UserError:
    """The fault of checkpoints none of which can be trusted: nobody should start afresh unasked."""
    told = f"; not whole: {_told(*broken[-1])}" if broken else ""
    scratch = "checkpoint.resume=never to start from scratch, in a run.dir of its own"
    return UserError(f"no complete checkpoint under {place}{told}", mend=mend or scratch)


def _told(path: Path, why: str) -> str:
    return f"{path.name} ({why.removeprefix(path.name).lstrip(': ')})"


def begin_from(derived: Derived, path: Path, found: Found) -> Start:
    """From the newest of ``found``, which can be trusted, below ``path``."""
    newest = found.complete[-1]
    check_layout(derived, newest)
    check_same_run(derived, path)
    check_parameters(derived, newest, "checkpoint.resume")
    check_ranks(derived, newest)
    check_batch(derived, newest)
    begins = first_step(derived, newest)
    said = [f"resuming from step {newest.step}: {newest.path} ({', '.join(story(derived, newest, begins))})"]
    said += [f"passed over {_told(bad, why)} in {bad.parent}" for bad, why in found.broken]
    total = derived.total_steps
    if total is not None and begins >= total:
        raise UserError(
            f"the checkpoint is of step {begins}, and the run ends at schedule.total_steps={total}",
            mend=f"schedule.total_steps={begins * 2}",
        )
    return Start(Resume(folder=str(newest.folder), file_name=newest.file_name, step=begins), tuple(said))


def only(found: Found, step: int | None, before: int | None) -> Found:
    """The checkpoints of ``step``, or those ``before`` one."""
    kept = [each for each in found.complete if (step is None or each.step == step) and (before is None or each.step < before)]
    return Found(tuple(kept), found.broken)


def _load(derived: Derived, path: Path) -> str:
    """What mindformers is given to load the weights of ``path``: a file where one holds the whole model, else the folder."""
    if not path.exists():
        raise UserError(f"checkpoint.load={path} does not exist", mend="a checkpoint file, or a folder with one")
    found = find(path)
    if not found.complete:
        if found.broken:
            raise UserError(f"checkpoint.load={path} is not whole: {found.broken[0][1]}", mend="another checkpoint")
        raise UserError(f"checkpoint.load={path}: there is no checkpoint in it", mend="a checkpoint file, or a folder with one")
    newest = found.complete[-1]
    check_layout(derived, newest)
    check_parameters(derived, newest, "checkpoint.load")
    whole = derived.config.parallel.mode in ("standalone", "data_parallel") and newest.format == "ckpt"
    return str(newest.files[0] if whole else newest.folder)
