"""A run carried out in front of a person: check, look at this machine, prepare the data, freeze, launch. Nothing is written
before everything that can be known is known to be right.
"""

from __future__ import annotations

import json
import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.again import again
from mindrecipe.config.findings import Finding, raise_errors
from mindrecipe.config.overrides import plain
from mindrecipe.config.search_path import config_dir
from mindrecipe.data.api import Progress
from mindrecipe.derive.checkpoint_size import checkpoint_bytes
from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.freeze import choose_dir, freeze_evaluation, numbered
from mindrecipe.hand_over import by_hand, hand_over
from mindrecipe.here import require_here, require_imports
from mindrecipe.join import join
from mindrecipe.launch import LaunchPlan, Outcome, RestartPolicy, launch, preflight
from mindrecipe.lower.checkpoint import saves
from mindrecipe.lower.outside import environment, msrun_options
from mindrecipe.lower.residue import passed_through
from mindrecipe.measure.view import View, make_view
from mindrecipe.resume import Start, decide, nothing_to_do
from mindrecipe.rules.this_host import of_the_run, would_stop_a_rank
from mindrecipe.runfiles import HANDED_OVER, SWEEP_JOB
from mindrecipe.simulated import carry_out

if TYPE_CHECKING:
    from mindrecipe.run import Run

#: the error a rank ends with, and the watcher whose action decides whether a restart follows
_ENDS = {"Diverged": "loss_nonfinite", "Overflow": "overflow_streak"}


def execute(run: Run, view: View | None = None) -> Outcome:
    """Carry out ``run`` and return how it ended. UserError for what the user can mend, before anything is written."""
    monitor = run.config.monitor
    view = view or make_view(monitor.console, log_steps=monitor.log_steps)
    try:
        found = run.require_sound()
        tell(view, of_the_run(found))
        passed = passed_through(run.config.native)
        if passed:
            view.note(passed)
        if run.config.launch.mode == "simulate":
            return carry_out(run, view)
        elsewhere, freezes = run.derived.config.launch.mode in ("ssh", "slurm"), run.config.launch.freeze_only
        if elsewhere and not freezes:
            return hand_over(run, view)
        if not elsewhere:
            require_here(run.derived, run.machine, run.provenance.overrides)
            raise_errors([] if freezes else would_stop_a_rank(found))
        require_imports(run.config.run.imports)
        _require_dir(run)
        preflight(plan_of(run, _expected_dir(run)), starts=not freezes)
        if run.config.launch.dry_run:
            return _rehearse(run, view)
        before = set(run.check())
        run = run.prepare(lambda progress: view.prepare(_progress_text(progress)))
        tell(view, [finding for finding in of_the_run(run.require_sound()) if finding not in before])
        from mindrecipe.datacheck import quick_findings  # numpy: a tenth of a second that `check` need not pay

        rows = quick_findings(run.derived)
        raise_errors(rows)
        tell(view, rows)
        others = run.config.launch.node_rank and run.config.run.dir is not None and not freezes
        start = nothing_to_do(run.derived) if others else decide(run.derived)
        path = join(run, view) if others and start is None else None
        if path is None:
            start = start or decide(run.derived)
            for line in start.said:
                (view.note if start.finished is None else view.say)(line)
            if start.finished is not None and not start.evaluates:
                _tell_sweep(start.finished)
                return Outcome(state="completed", exit_code=EXIT_OK, notes=start.said)
            path = start.finished or _settle(run, start, view)
            if start.evaluates:
                _freeze_again(run, path, start)
        if freezes:
            for line in by_hand(run, path):
                view.say(line)
            return Outcome(state="frozen", exit_code=EXIT_OK)
        _tell_sweep(path)
        return launch(plan_of(run, path), view, partial(_again, run, path))
    finally:
        view.close()


def _tell_sweep(path: Path) -> None:
    """Where this run is, for the sweep whose job it is (cli/train.py)."""
    if SWEEP_JOB in os.environ:
        Path(os.environ[SWEEP_JOB]).write_text(str(path.absolute()), encoding="utf-8")


def _rehearse(run: Run, view: View) -> Outcome:
    """launch.dry_run: what would be started. The data set is not built: what its facts would forbid is not found here."""
    start = decide(run.derived)
    for line in start.said:
        view.say(f"# {line}")
    if start.finished is not None:
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    given = run.derived.config.run.dir
    free = start.continues is None and start.replaces is None
    path = choose_dir(run.derived) if given is None or free else numbered(Path(given).expanduser().absolute())
    return launch(plan_of(run, path), view)


def _again(run: Run, path: Path, before: int | None) -> tuple[str, ...]:
    """Make the run directory ready for another attempt: the same run, from another place."""
    start = again(run.derived, path, before)
    _freeze_again(run, path, start)
    return start.said


def _freeze_again(run: Run, path: Path, start: Start) -> None:
    if start.evaluates and start.resume is not None:
        freeze_evaluation(path, start.resume)
    else:
        run.freeze_again(path, start)


def plan_of(run: Run, path: Path) -> LaunchPlan:
    """What the launcher needs to know of ``run``."""
    derived, launch_ = run.derived, run.derived.config.launch
    return LaunchPlan(
        run_dir=path,
        nodes=launch_.nodes,
        devices_per_node=launch_.devices_per_node or 1,
        node_rank=launch_.node_rank,
        master_addr=launch_.master_addr,
        master_port=launch_.master_port,
        cluster_time_out=launch_.cluster_time_out,
        threads_per_worker=launch_.threads_per_worker,
        env=launch_.env,
        stop_grace=launch_.stop_grace,
        msrun_args=tuple(msrun_options(derived)),
        variables=environment(derived, path),
        stall_timeout=launch_.stall_timeout,
        stall_min=launch_.stall_min,
        disk_low=int(derived.config.watch.disk_gb * 2**30),
        disk_action=derived.config.watch.disk,
        restarts=RestartPolicy(
            max_restarts=launch_.max_restarts,
            window=launch_.restart_window,
            backoff=launch_.restart_backoff,
            final=tuple(kind for kind, action in _ENDS.items() if getattr(derived.config.watch, action) == "stop"),
        ),
        total_steps=derived.total_steps,
        title=derived.config.run.name or "run",
        resume_hint=resume_command(_typed(run), path, derived.config.run.dir),
        dry_run=launch_.dry_run,
        device_target=derived.hardware.target,
        disk_need=checkpoint_bytes(derived),
        saves=saves(derived),
    )


def _typed(run: Run) -> tuple[str, ...]:
    """The overrides of the command that a person typed: of launch=ssh or slurm, where this one is of a host that they started."""
    return tuple(json.loads(os.environ[HANDED_OVER])) if HANDED_OVER in os.environ else run.provenance.overrides


def resume_command(overrides: tuple[str, ...], path: Path, run_dir: str | None = None) -> str:
    """The command line that goes on from the newest checkpoint of ``path``, from whatever folder; ``run_dir`` is run.dir as given."""
    keys = [word.lstrip("+").partition("=")[0] for word in overrides]
    kept = [word for word, key in zip(overrides, keys, strict=True) if key not in ("checkpoint.resume", "run.dir", "checkpoint.load")]
    folder = config_dir()
    flags = ["--config-dir", str(folder)] if folder is not None else []
    # a run.dir is kept: the run goes on beside it (<run.dir>-2), and the next one finds both
    if run_dir is None:
        return shlex.join(["train", *kept, f"checkpoint.resume={plain(str(path))}", *flags])
    return shlex.join(["train", *kept, f"run.dir={plain(str(Path(run_dir).expanduser().absolute()))}", "checkpoint.resume=must", *flags])


def tell(view: View, findings: list[Finding]) -> None:
    """Show findings that keep nobody from going on."""
    for finding in findings:
        mend = f" (silenced: {finding.reason})" if finding.reason else f" (mend: {finding.mend})" if finding.mend else ""
        view.note(f"{finding.severity}: {finding.what}: {finding.why}{mend} [{finding.rule}]")


def _expected_dir(run: Run) -> Path:
    """Where the run directory will be, for checks of its disk: of the name only, a later run.dir that exists is refused later."""
    given = run.derived.config.run
    return Path(given.dir or Path(given.root) / (given.name or "run")).expanduser().absolute()


def _progress_text(progress: Progress) -> str:
    share = f"{100 * progress.done // progress.total} %" if progress.total else ""
    what = {
        "hash": "reading the data set's sources",
        "wait": "waiting for another process that builds the same data set",
        "tokenizer": "training the tokenizer",
        "rows": f"tokenizing, {progress.tokens / 1e6:.1f} M tokens",
        "index": "closing the data set's files",
    }
    return f"{what.get(progress.phase, progress.phase)} {share}".rstrip()


def _require_dir(run: Run) -> None:
    """Refuse an existing run.dir, and several hosts without one, before the data set is built."""
    config = run.derived.config
    if config.launch.nodes > 1 and config.run.dir is None and not config.launch.freeze_only:
        raise UserError(
            f"with launch.nodes={config.launch.nodes} every host needs the same run directory, and its default holds the time",
            mend="run.dir=<a folder, the same on every host>",
        )
    goes_on = config.checkpoint.resume in ("auto", "must") or config.checkpoint.resume.isdigit()  # beside an earlier run of run.dir
    if (not config.launch.node_rank or config.launch.freeze_only) and not goes_on:
        choose_dir(run.derived)


def _settle(run: Run, start: Start, view: View) -> Path:
    """Make the run directory."""
    config = run.derived.config
    given = Path(config.run.dir).expanduser().absolute() if config.run.dir is not None else None
    if given is not None and start.continues is not None:
        given = numbered(given)  # the same command again goes on in a directory of its own, beside the one it continues
    if start.replaces is not None:
        aside = numbered(start.replaces.with_name(f"{start.replaces.name}.died"))
        os.rename(start.replaces, aside)
        view.note(f"what a run that died before its first checkpoint left there is now {aside}")
    return run.freeze(given, start)
