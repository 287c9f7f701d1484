"""Watching a launch until it ends, whatever the end: who failed first, who only followed, and that none is left.

msrun notices a dead rank, then waits half a minute for its scheduler; it takes Ctrl-C for success and leaves its ranks behind when
it is terminated. So it only starts the ranks here: their end is decided below.
"""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import replace

from mindrecipe.errors import EXIT_FAILED, EXIT_OK
from mindrecipe.launch import failure
from mindrecipe.launch.disk import DISK_FULL, DiskWatch
from mindrecipe.launch.leave import Leave
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.processes import Tree, send
from mindrecipe.launch.ranks import Ranks
from mindrecipe.launch.seen import Deaths, Ending, Seen
from mindrecipe.launch.signals import StopSignals, exit_code
from mindrecipe.launch.stall import STALLED, clock_of
from mindrecipe.launch.watch import Watch
from mindrecipe.measure.outcome import Outcome, RankError
from mindrecipe.measure.record import StepRecord
from mindrecipe.measure.view.base import View

POLL = 0.15
SETTLE = 0.3  # after the first error: ranks that failed in the same moment get to say so, and the earliest is the cause
EXIT_CODE_WAIT = 1.5  # msrun looks at its ranks once a second; once it has, only it can say how one ended
AT_ONCE = 3.0  # Ctrl-C kills the ranks: mindspore's data pipeline would make a SIGTERM of it, and they would save first


class Supervisor:
    """Supervises one launch. All its processes carry the mark of ``tree``."""

    def __init__(self, plan: LaunchPlan, tree: Tree, watch: Watch, view: View, signals: StopSignals, peers: Peers) -> None:
        self._plan = plan
        self._tree = tree
        self._watch = watch
        self._view = view
        self._signals = signals
        self._peers = peers
        self._seen = Seen()
        self._alive = time.time()
        self._deaths: Deaths | None = None
        self._leave = Leave(plan, self._seen, peers)
        self._stall = clock_of(plan)
        self._disk = DiskWatch(plan.run_dir, plan.disk_low, plan.disk_action)

    def run(self, root: subprocess.Popen[bytes]) -> Ending:
        """Until the job has ended; when this returns none of its processes is left. ``root`` is what `start` started."""
        ranks = Ranks(self._plan, root)
        outcome: Outcome | None = None
        while outcome is None:
            time.sleep(POLL)
            self._view.tick()
            outcome = self._interrupt(ranks, root) if self._signals.received else self._judge(ranks)
        stuck = self._tree.kill()
        if stuck:
            self._seen.notes.append(f"processes that do not die: {', '.join(map(str, stuck))}")
        else:
            root.wait()
        self._read(everywhere=True)
        return self.ending(replace(outcome, notes=(*outcome.notes, *self._seen.notes)))

    def ending(self, outcome: Outcome) -> Ending:
        """All that was reported so far, under an outcome."""
        return Ending(outcome, self._seen.steps, self._seen.events, self._seen.first_step)

    def _judge(self, ranks: Ranks) -> Outcome | None:
        """One look; None: go on. Processes first, then their files: the last words of the dead are read."""
        ranks.look()
        now, root_code, ended, scheduler_ended = time.time(), ranks.root_code, ranks.ended(), ranks.scheduler_ended()
        self._read()
        told = {error.rank for error in self._seen.errors}
        silent = ended - self._seen.done - self._seen.stopped - told
        if self._seen.stopped >= set(self._plan.local_ranks):  # a scheduler told the ranks themselves: they have saved
            return Outcome(state="interrupted", exit_code=exit_code(signal.SIGTERM), stopped=tuple(sorted(self._seen.stopped)))
        if self._deaths is None and (silent or ((root_code is not None or scheduler_ended) and not self._seen.stopped)):
            self._deaths = Deaths(silent, self._alive, time.monotonic(), frozenset(told))
        if told and self._deaths is None:
            # a rank that died since the look may be what the others complain of
            ranks.look()
            if late := ranks.ended() - ended - self._seen.done - self._seen.stopped - told:
                self._deaths = Deaths(late, now, time.monotonic(), frozenset(told))
        if self._seen.errors:
            return self._fail(ranks)
        if self._done:
            if (finished := self._finish(ranks, root_code, left=ended >= set(self._plan.local_ranks))) is not None:
                return finished
            return None if (elsewhere := self._peers.stopped()) is None else self._follow(elsewhere, ranks)
        if self._deaths is not None:
            return self._bury(ranks, self._deaths)
        self._alive = now
        if (low := self._disk.look()) is not None:
            self._warn(low)
            if self._plan.disk_action == "stop":
                self._seen.errors.append(RankError(rank=None, type=DISK_FULL, message=low, log=str(self._plan.run_dir), time=now))
                return self._fail(ranks)
        if (stalled := self._stall.stalled_for) is not None:
            self._seen.errors.append(self._stalled(stalled))
            return self._fail(ranks)
        return None if (elsewhere := self._peers.stopped()) is None else self._follow(elsewhere, ranks)

    @property
    def _done(self) -> bool:
        """Whether all of this host's ranks have said so."""
        return self._seen.done >= set(self._plan.local_ranks)

    def _follow(self, told: RankError, ranks: Ranks) -> Outcome:
        """Another host has stopped short of the job's end."""
        self._seen.errors.append(told)
        return self._fail(ranks)

    def _read(self, *, everywhere: bool = False) -> None:
        news = self._watch.look(everywhere=everywhere)
        for item in news.in_order():
            if isinstance(item, StepRecord):
                self._stall.step(item)
                self._view.step(item)
            else:
                self._stall.event(item)
                self._view.event(item)
        if news.events:
            self._leave.heard()
        for event in news.events:
            if event.phase == "train" and self._seen.first_step is None:
                self._seen.first_step = event.time
            if event.phase == "error":
                self._seen.errors.append(failure.from_event(event, self._plan.files.rank_log(event.rank)))
            elif event.phase == "done":
                self._seen.done.add(event.rank)
            elif event.phase == "alarm" and event.rank == self._plan.local_ranks.start:  # all ranks see the same
                self._warn(str(event.detail["message"]))
            elif event.phase == "stopped":
                self._seen.stopped.add(event.rank)
        self._seen.steps += news.steps
        self._seen.events += news.events
        self._seen.notes += [f"unreadable line in {line}" for line in news.unreadable]

    def _warn(self, message: str) -> None:
        self._view.note(f"warning: {message}")
        self._seen.notes.append(message)

    def _stalled(self, passed: float) -> RankError:
        """The error of a job that hangs: which rank makes the others wait can't be seen from outside."""
        last = self._seen.steps[-1].step if self._seen.steps else 0
        message = f"no step for {passed:.0f} s after step {last}, more than {self._stall.allows}"
        return RankError(rank=None, type=STALLED, message=message, log=str(self._plan.files.logs), time=time.time())

    def _finish(self, ranks: Ranks, root_code: int | None, *, left: bool) -> Outcome | None:
        """All ranks of this host said "done": wait for them, and for those of other hosts, to leave, but not for ever."""
        if self._leave.waits(root_code, left=left):
            return None
        self._read(everywhere=True)
        if (lost := self._leave.lost(root_code)) is not None:
            self._seen.errors.append(lost)
        if self._seen.errors:
            return self._fail(ranks)
        return Outcome(state="completed", exit_code=EXIT_OK, notes=self._leave.notes(root_code, left=left))

    def _bury(self, ranks: Ranks, deaths: Deaths) -> Outcome | None:
        """Something ended that should not have: give msrun its second to say how, then name the one to blame."""
        known = ranks.root_code is not None or any(ranks.exit_code(rank) is not None for rank in deaths.ranks)
        if not known and time.monotonic() - deaths.noticed < EXIT_CODE_WAIT:
            return None
        return self._fail(ranks)

    def _blame(self, ranks: Ranks, deaths: Deaths) -> RankError | None:
        """The error of the first that ended without a word: msrun if it was killed, else a rank (the one msrun named), else msrun."""
        code, logs = ranks.root_code, self._plan
        if code is not None and code < 0 and not self._plan.is_local:
            return failure.from_launch(code, logs.launch_log, deaths.alive)
        if deaths.told.intersection(ranks.blamed()):
            return None  # msrun saw a rank fail that has said why, and killed the others itself
        silent = deaths.ranks - {error.rank for error in self._seen.errors}
        if silent:
            # msrun kills the others as soon as one ends: one that ended before we found its process is told by its log, or by its silence
            excused = self._seen.done | {error.rank for error in self._seen.errors}
            raised = (rank for rank in logs.local_ranks if rank not in excused and failure.last_exception(logs.files.rank_log(rank)))
            rank = next((rank for rank in ranks.blamed() if rank in silent), None)
            rank = next(raised, min(sorted(silent), key=logs.files.last_sign)) if rank is None else rank
            return failure.from_death(rank, ranks.exit_code(rank), logs.files.rank_log(rank), deaths.alive)
        if self._seen.errors:
            return None
        if code is None:
            return failure.from_launch(None, logs.files.logs / "scheduler.log", deaths.alive, what="msrun's scheduler")
        return failure.from_launch(code, logs.launch_log, deaths.alive)

    def _fail(self, ranks: Ranks) -> Outcome:
        """Stop everybody at once, after a moment in which others may still say that they were first."""
        deadline = time.monotonic() + SETTLE
        while time.monotonic() < deadline and not ranks.ended() >= set(self._plan.local_ranks):
            time.sleep(POLL / 3)
            self._read()
        ranks.look()
        self._read()
        blamed = self._blame(ranks, self._deaths) if self._deaths is not None else None
        errors = failure.in_order([*([blamed] if blamed is not None else []), *self._seen.errors])
        faulty = {error.rank for error in errors}
        stopped = tuple(rank for rank in self._plan.local_ranks if rank not in faulty and rank not in self._seen.done)
        self._view.failure(errors[0])
        self._tree.kill()
        state = "diverged" if errors[0].type in failure.DIVERGED else "failed"
        return Outcome(state=state, exit_code=EXIT_FAILED, errors=tuple(errors), stopped=stopped)

    def _interrupt(self, ranks: Ranks, root: subprocess.Popen[bytes]) -> Outcome:
        """SIGTERM: ask the ranks to save and leave, wait ``stop_grace`` seconds, kill. Ctrl-C: they end at once, with the last checkpoint.
        A second signal kills at once.

        msrun is frozen first: it would kill the ranks that still save when the quickest has left. Where this host's ranks are done already,
        the scheduler stays for those of other hosts as long.
        """
        number, count = self._signals.received[0], len(self._signals.received)
        saves = number == signal.SIGTERM
        leave = "save at their next step and leave" if self._plan.saves else "leave at their next step, nothing is saved (checkpoint=off)"
        doing = f"the ranks {leave}, within {self._plan.stop_grace:g} s" if saves else "stopping the ranks"
        self._view.note(f"{signal.Signals(number).name}: {doing}; once more kills them at once")
        ranks.look()
        living = ranks.living()
        if not self._plan.is_local and root.poll() is None:
            root.send_signal(signal.SIGSTOP)
        send(living.values(), signal.SIGTERM if saves else signal.SIGKILL)
        deadline = time.monotonic() + (self._plan.stop_grace if saves else min(self._plan.stop_grace, AT_ONCE))
        self._read()
        while ranks.living() or (saves and self._done and self._leave.others_work):
            if time.monotonic() > deadline or len(self._signals.received) > count:
                break
            time.sleep(POLL / 3)
            self._read()
            self._view.tick()
        killed = sorted(ranks.living())
        self._read(everywhere=True)
        if self._done and not self._leave.others_work:
            return Outcome(state="completed", exit_code=EXIT_OK)
        notes = (f"did not stop in time and was killed: {', '.join(f'rank {rank}' for rank in killed)}",) if killed else ()
        return Outcome(state="interrupted", exit_code=exit_code(number), stopped=tuple(sorted(living)), notes=notes)
