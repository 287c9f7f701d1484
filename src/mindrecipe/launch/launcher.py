"""From a frozen run directory to its end: start, supervise, start again, clean up, sum up. The one entry point of this package."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from mindrecipe.errors import EXIT_OK, UserError
from mindrecipe.launch import dry_run, restart
from mindrecipe.launch.attempt import attempt
from mindrecipe.launch.claim import Claim
from mindrecipe.launch.disk import Ballast, DiskFull, describe_full, is_no_space
from mindrecipe.launch.environment import left_out
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.preconditions import preflight
from mindrecipe.launch.restart import Attempt, Records
from mindrecipe.launch.seen import Ending
from mindrecipe.launch.signals import StopSignals, exit_code
from mindrecipe.launch.supervise import POLL
from mindrecipe.launch.together import Together
from mindrecipe.measure.artifacts import resumed_step
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.view.base import Header, View

Again = Callable[[int | None], tuple[str, ...]]
"""Prepares the run directory for another attempt, from its newest good checkpoint (before a step, if one is given); what to tell."""


def launch(plan: LaunchPlan, view: View, again: Again | None = None) -> Outcome:
    """Start this host's ranks, show them, and return how they ended; summary.json is written whatever the end.

    ``again`` is needed where the plan allows restarts. Raises UserError before anything is started. Call it from the main thread:
    only there can it catch Ctrl-C.
    """
    preflight(plan)
    if plan.dry_run:
        for line in dry_run.lines(plan):
            view.say(line)
        return Outcome(state="dry_run", exit_code=EXIT_OK)
    if not plan.run_dir.is_dir():
        raise UserError(f"the run directory {plan.run_dir} does not exist", mend="freeze the run before it is launched")
    with ExitStack() as held:
        if plan.node == 0:
            held.enter_context(Claim(plan.run_dir))
        peers = held.enter_context(Peers(plan, view.note))
        ballast = held.enter_context(Ballast(plan.run_dir))
        held.callback(view.close)
        signals = held.enter_context(StopSignals())
        try:
            return _Launch(plan, view, signals, ballast, peers, again, Records(plan.files.attempts)).run()
        except OSError as error:
            if not is_no_space(error):
                raise
            mend = f"make room, then go on: {plan.resume_hint}" if plan.resume_hint else "make room"
            raise DiskFull(describe_full(plan.run_dir), where=f"run directory {plan.run_dir}", mend=mend) from error


def header(plan: LaunchPlan) -> Header:
    """What the view says of the run before its first step."""
    return Header(
        title=plan.title,
        run_dir=plan.run_dir,
        total_steps=plan.total_steps,
        ranks=plan.ranks,
        local_ranks=len(plan.local_ranks),
        hosts=plan.nodes,
        device=plan.device_target,
        resume_hint=plan.resume_hint,
    )


@dataclass(slots=True)
class _Launch:
    """One launch: attempts until the job has ended, or nothing speaks for another one."""

    plan: LaunchPlan
    view: View
    signals: StopSignals
    ballast: Ballast
    peers: Peers
    again: Again | None
    records: Records
    attempts: list[Attempt] = field(default_factory=list)

    def run(self) -> Outcome:
        """All of it; the outcome is the last attempt's."""
        plan, view = self.plan, self.view
        view.begin(header(plan))
        foreign = left_out(plan)
        if foreign:
            view.note(f"left out of the ranks' environment, as another job's: {', '.join(foreign)} (launch.env.{foreign[0]}=... sets it)")
        self._hosts.gather()
        said: tuple[str, ...] | None = None
        while True:
            began, from_step = time.time(), resumed_step(plan.run_dir)
            begun = _begun(len(self.attempts) + 1, began, from_step)
            self._record(begun)
            try:
                ending, summary = attempt(plan, view, self.signals, self.ballast, self.peers, said)
            except BaseException as fault:
                told = {"rank": None, "type": type(fault).__name__, "message": str(fault), "step": None}
                self._record(replace(begun, ended=time.time(), state="failed", error=told))
                raise
            self.attempts.append(_attempt(ending, len(self.attempts) + 1, began, from_step))
            decision = restart.decide(plan.restarts, self.attempts) if plan.node == 0 else self._hosts.follow()
            said = self._next(decision)
            if said is None:
                break
            view.note(f"attempt {len(self.attempts) + 1}: {'; '.join(said)}")
        outcome = ending.outcome
        if self.signals.received and outcome.state in ("failed", "diverged"):  # while it waited to start again
            outcome = replace(outcome, state="interrupted", exit_code=exit_code(self.signals.received[0]))
        if len(self.attempts) > 1 or decision.why:
            outcome = replace(outcome, notes=(*outcome.notes, *filter(None, [decision.why, f"attempts: {len(self.attempts)}"])))
        self._record(replace(self.attempts[-1], decision=decision.why))
        view.end(outcome, summary)
        return outcome

    @property
    def _hosts(self) -> Together:
        return Together(self.plan, self.peers, self.view, self.signals)

    def _next(self, decision: restart.Decision) -> tuple[str, ...] | None:
        """What is to be told of the next attempt, once the run directory is ready for it; None: there is none."""
        if self.plan.node > 0:
            return None if decision.wait is None else (decision.why,)
        if decision.wait is None or self.again is None:
            self.peers.over(decision.why)
            return None
        self.view.note(decision.why)
        against = self._hosts.all_stopped()
        until = time.monotonic() + decision.wait
        while against is None and time.monotonic() < until and not self.signals.received:
            time.sleep(min(POLL, decision.wait))
            self.view.tick()
        if self.signals.received:
            self.peers.over("host 0 was interrupted")
            return None
        try:
            said = self.again(decision.before) if against is None else ()
        except UserError as fault:
            against = str(fault)
        if against is not None:
            self.view.note(f"not started again: {against}")
            self.peers.over(f"not started again: {against}")
            return None
        self._record(replace(self.attempts[-1], decision=decision.why))
        return said

    def _record(self, attempt_: Attempt) -> None:
        """By the first host."""
        if self.plan.node == 0:
            self.records.write(attempt_)


def _begun(number: int, began: float, from_step: int) -> Attempt:
    return Attempt(number=number, started=began, ended=None, state="running", exit_code=None, from_step=from_step, last_step=from_step)


def _attempt(ending: Ending, number: int, began: float, from_step: int) -> Attempt:
    outcome = ending.outcome
    return Attempt(
        number=number,
        started=began,
        ended=time.time(),
        state=outcome.state,
        exit_code=outcome.exit_code,
        from_step=from_step,
        last_step=ending.steps[-1].step if ending.steps else from_step,
        error=restart.error_of(outcome),
    )
