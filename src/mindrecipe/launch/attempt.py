"""One attempt at a run: this host's ranks from their start to their end, whatever that is, and the summary of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from mindrecipe.checkpoints.find import find
from mindrecipe.errors import EXIT_FAILED
from mindrecipe.launch.disk import DISK_FULL, Ballast, describe_full, is_full, is_no_space
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.ports import PortReservation, reserve_free
from mindrecipe.launch.processes import Tree
from mindrecipe.launch.seen import Ending
from mindrecipe.launch.session import open_session
from mindrecipe.launch.signals import StopSignals
from mindrecipe.launch.start import start
from mindrecipe.launch.supervise import Supervisor
from mindrecipe.launch.watch import Watch
from mindrecipe.measure.artifacts import grad_clip, read_heldout, tokens_per_sample, unigram_entropy, write_summary
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import StepRecord, read_usage
from mindrecipe.measure.summary import Session, Summary, summarise
from mindrecipe.measure.view.base import View

NO_STEPS = "NoSteps"


def attempt(
    plan: LaunchPlan, view: View, signals: StopSignals, ballast: Ballast, peers: Peers, said: Sequence[str] | None = None
) -> tuple[Ending, Summary]:
    """Start the ranks and see them to their end; summary.json is written whatever the end, and other hosts are told.

    ``said`` is what the first host tells the others of an attempt that is not the first: they may start once the directory is ready.
    A fault of the launcher itself (or of its view) ends the ranks too, before it is raised; a reader of its output that leaves is none, see
    cli/output.py.
    """
    started = time.time()
    run_id = uuid.uuid4().hex
    tree = Tree(run_id)
    with _port(plan) as reservation:
        if reservation is not None:
            plan = replace(plan, master_port=reservation.port)
        earlier = open_session(plan)
        if said is not None:
            peers.next(said)
        supervisor = Supervisor(plan, tree, Watch(plan), view, signals, peers)
        try:
            ending = supervisor.run(start(plan, run_id))
        except BaseException as error:
            tree.kill()
            ending = supervisor.ending(_broken(plan, error))
            if not is_no_space(error):
                _sum_up(plan, ending, earlier, started, ballast)
                peers.ended(ending.outcome)
                raise
    ending = _explained(plan, ending, bool(earlier), view)
    summary = _sum_up(plan, ending, earlier, started, ballast)
    peers.ended(ending.outcome)
    return ending, summary


def _port(plan: LaunchPlan) -> PortReservation | nullcontext[None]:
    """The scheduler's port, held by this host if the scheduler runs here."""
    if plan.is_local or plan.node > 0:
        return nullcontext()
    return reserve_free() if plan.nodes == 1 and plan.master_port is None else PortReservation(plan.port)


def _explained(plan: LaunchPlan, ending: Ending, has_earlier: bool, view: View) -> Ending:
    """The ending with what the ranks could not say themselves."""
    outcome = ending.outcome
    if outcome.state == "failed" and is_full(plan.run_dir):
        told = RankError(rank=None, type=DISK_FULL, message=describe_full(plan.run_dir), log=str(plan.files.logs), time=time.time())
        followed = tuple(replace(error, followed=True) for error in outcome.errors)
        outcome = replace(outcome, errors=(told, *followed))
    elif outcome.state == "completed" and plan.node == 0 and not (has_earlier or ending.steps):
        log = str(plan.files.rank_log(0))
        told = RankError(rank=0, type=NO_STEPS, message="the ranks ended without a single step", log=log, time=time.time())
        outcome = Outcome(state="failed", exit_code=EXIT_FAILED, errors=(told,))
    if outcome is ending.outcome:
        return ending
    view.failure(outcome.errors[0])
    return replace(ending, outcome=outcome)


def _sum_up(plan: LaunchPlan, ending: Ending, earlier: list[StepRecord], started: float, ballast: Ballast) -> Summary:
    summary = summarise(
        ending.outcome,
        ending.steps,
        session=Session(started=started, ended=time.time(), first_step=ending.first_step),
        earlier=earlier,
        events=ending.events,
        heldout=read_heldout(plan.run_dir),
        unigram_entropy=unigram_entropy(plan.run_dir),
        total_steps=plan.total_steps,
        usage=[sample for sample in read_usage(plan.files.usage(0)) if sample.time >= started],
        grad_clip=grad_clip(plan.run_dir),
        tokens_per_sample=tokens_per_sample(plan.run_dir),
        checkpoints=[str((found.files[0] if found.file_name else found.folder).absolute()) for found in find(plan.run_dir).complete],
    )
    path = plan.files.summary(plan.node)
    try:
        write_summary(path, summary)
    except OSError as error:
        if not is_no_space(error):
            raise
        ballast.drop()
        write_summary(path, summary)
    return summary


def _broken(plan: LaunchPlan, error: BaseException) -> Outcome:
    """The launcher itself failed."""
    state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
    told = RankError(rank=None, type=type(error).__name__, message=str(error), log=str(plan.launch_log), time=time.time())
    return Outcome(state=state, exit_code=EXIT_FAILED, errors=(told,))
