"""This host's ranks have done their work: how long they may take to leave, and whether other hosts' ranks have done theirs.

On several hosts none goes early: the scheduler runs on the first, and its end, or that of a rank that has not taken its leave of it, ends
all ranks, also those that still save or evaluate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from mindrecipe.launch import failure
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.seen import Seen
from mindrecipe.launch.stall import LONGEST_PAUSE
from mindrecipe.measure.outcome import RankError

LINGER = 30.0  # once all ranks of the job have said "done" they may take this long to close their libraries


class Leave:
    """Asked once all of this host's ranks are done. Other hosts are seen through a shared run directory; without one, none of them is."""

    def __init__(self, plan: LaunchPlan, seen: Seen, peers: Peers, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._seen = seen
        self._peers = peers
        self._clock = clock
        self._heard = clock()
        self._missed: float | None = None
        self._longest = math.inf if plan.stall_timeout is None else max(LINGER, LONGEST_PAUSE * plan.stall_min)

    def heard(self) -> None:
        """Some rank has said something."""
        self._heard = self._clock()

    @property
    def over(self) -> bool:
        """Whether no rank of the job has work left, as far as it can be seen."""
        if self._plan.node > 0:
            return self._peers.end(0) is not None  # it waits for all
        return self._seen.done >= set(range(self._plan.ranks))

    def waits(self, code: int | None, *, left: bool) -> bool:
        """Whether this host still waits: ``code`` is msrun's exit code, once it has ended; ``left`` says that this host's ranks have.

        Once they have left nothing is waited for on a single host: msrun and its scheduler have nothing to save. On several the scheduler
        is, as long as what follows the last step may take, or nothing is a hang; and where it ends badly before all were seen to be done,
        the hosts of the others have a moment to say why.
        """
        now = self._clock()
        if code is None and not (left and self._plan.nodes == 1):
            passed = now - self._heard
            return passed <= LINGER or (passed <= self._longest and not self.over)
        if self.lost(code) is None:
            return False
        self._missed = now if self._missed is None else self._missed
        return now - self._missed <= LINGER

    @property
    def others_work(self) -> bool:
        """Whether this host, the first, sees another whose ranks have work left."""
        return self._unfinished is not None

    def lost(self, code: int | None) -> RankError | None:
        """The error of another host's rank that has not done its work, and is waited for no more: msrun has ended with ``code``, or
        nothing was heard for too long (None).
        """
        rank = None if code == 0 else self._unfinished  # 0: all ranks have taken their leave of the scheduler
        if rank is None:
            return None
        how = "nothing was heard of it" if code is None else f"msrun {failure.describe_exit(code)}"
        message = f"host {rank // self._plan.devices_per_node} was lost before the work of its ranks was done: {how}"
        return RankError(rank=rank, type="Died", message=message, log=str(self._plan.files.rank_log(rank)), time=time.time())

    def notes(self, code: int | None, *, left: bool) -> tuple[str, ...]:
        """What is to be told of an end that is a good one."""
        if code is None and not (left and self._plan.nodes == 1):
            return (f"ranks did not leave within {self._clock() - self._heard:.0f} s of their end and were killed",)
        if code:
            return (f"{'the rank' if self._plan.is_local else 'msrun'}: {failure.describe_exit(code)} after the work was done",)
        return ()

    @property
    def _unfinished(self) -> int | None:
        """For the first host: a rank that is not done, of a host that has come to the run directory."""
        if self._plan.node > 0 or self.over:
            return None
        each = self._plan.devices_per_node
        missing = [rank for rank in range(self._plan.ranks) if rank not in self._seen.done]
        first = {rank // each: rank for rank in reversed(missing)}
        return next((rank for node, rank in sorted(first.items()) if node in self._peers.others and self._peers.sign_of_life(node)), None)
