"""One launch's claim on a run directory: what earlier launches left is put in order before the ranks write theirs."""

from __future__ import annotations

from mindrecipe.checkpoints.manifest import remove_half_written
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.measure.artifacts import resumed_step
from mindrecipe.measure.history import forget_evaluation, keep_steps, set_aside
from mindrecipe.measure.record import StepRecord
from mindrecipe.measure.tail import trim_torn_line


def open_session(plan: LaunchPlan) -> list[StepRecord]:
    """Make the run directory ready for this host's ranks; returns the steps up to the checkpoint that the run goes on from.

    Logs, metrics and the summary of an earlier launch of the same directory are kept under a numbered name. Events are appended
    to: a line that a killed rank left unfinished is cut off first. Held-out parts are removed, since they are of other weights.
    """
    files = plan.files
    files.logs.mkdir(exist_ok=True)
    aside = [files.summary(plan.node), plan.launch_log, *map(files.rank_log, plan.local_ranks)]
    if plan.node == 0:
        aside.append(files.logs / "scheduler.log")
    for path in aside:
        set_aside(path)
    if plan.node == 0:
        remove_half_written(files.checkpoints)
    for rank in plan.local_ranks:
        trim_torn_line(files.events(rank))
    if plan.node > 0:
        return []
    forget_evaluation(plan.run_dir)
    return keep_steps(files.metrics, resumed_step(plan.run_dir))
