"""Starting again on several hosts: the first decides once all have stopped, the others do as it says.

They agree through the shared run directory (peers.py). A host whose launcher gives no sign of life is not waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mindrecipe.errors import UserError
from mindrecipe.launch import restart
from mindrecipe.launch.peers import Peers
from mindrecipe.launch.plan import LaunchPlan
from mindrecipe.launch.signals import StopSignals, exit_code
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.view.base import View

_LOOK_EVERY = 0.5
GONE = 120.0
"""Seconds without a sign of life after which a host counts as gone: more than network file systems keep a file's time from others."""
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Together:
    """The hosts of ``plan`` between two attempts."""

    plan: LaunchPlan
    peers: Peers
    view: View
    signals: StopSignals

    def gather(self) -> None:
        """The first host, before a run that may be started again: wait for the others. UserError where one does not come, or won't take
        part in it."""
        plan = self.plan
        if plan.nodes == 1 or plan.node > 0 or plan.restarts.max_restarts == 0:
            return
        awaited = f"{plan.nodes - 1} other host{'s' * (plan.nodes > 2)}"
        self.view.note(f"waiting for {awaited} to come to {plan.run_dir}, at most {plan.cluster_time_out} s (launch.cluster_time_out)")
        self._wait(lambda: True if len(self.peers.here()) == plan.nodes - 1 else None, plan.cluster_time_out)
        if self.signals.received:
            return
        here = self.peers.here()
        missing = [node for node in self.peers.others if node not in here]
        if missing:
            raise UserError(
                f"host {missing[0]} did not come to {plan.run_dir} within {plan.cluster_time_out} s (launch.cluster_time_out): "
                "hosts that start again together share the run directory",
                where=f"launch.max_restarts={plan.restarts.max_restarts}",
                mend="run.dir=<a folder that all hosts share>, or launch.max_restarts=0 and a scheduler that starts the command again",
            )
        others = [node for node, each in here.items() if not each["restarts"]]
        if others:
            given = f"launch.max_restarts={plan.restarts.max_restarts}"
            raise UserError(f"host {others[0]} was started with launch.max_restarts=0, host 0 with {given}", mend=f"{given} on every host")

    def all_stopped(self) -> str | None:
        """The first host, after an attempt that may be followed by another: wait until none of the job's ranks is left anywhere.

        What speaks against another attempt; None if nothing does.
        """
        for node in self.peers.others:
            end = self._wait(partial(self.peers.end, node), None, node)
            if self.signals.received:
                return None
            if end is None:
                return f"host {node} is gone: no sign of life for {GONE:.0f} s"
            if end["state"] == "interrupted":
                return f"host {node} was interrupted"
            error = end["error"] or {}
            if (why := restart.hopeless(error.get("type"))) is not None:
                return f"host {node}: {error['type']}: {why}"
        return None

    def follow(self) -> restart.Decision:
        """Another host, after any attempt: wait for what the first says. ``wait`` 0: the next attempt is ready to be started."""
        if self.plan.restarts.max_restarts == 0:
            return restart.Decision(None, "")
        told = self._wait(self.peers.told, None, 0)
        if self.signals.received:
            leaves = Outcome(state="interrupted", exit_code=exit_code(self.signals.received[0]))
            self.peers.ended(leaves, self.peers.attempt + 1)  # if there is one
            return restart.Decision(None, "")
        if told is None:
            return restart.Decision(None, f"not started again: host 0 is gone: no sign of life for {GONE:.0f} s")
        return restart.Decision(0.0 if told["goes_on"] else None, str(told["said"]))

    def _wait(self, look: Callable[[], _Found | None], seconds: float | None, alive: int | None = None) -> _Found | None:
        """What ``look`` finds; None after a signal, after ``seconds``, or once host ``alive`` has given no sign of life for long."""
        began = heard = time.monotonic()
        sign = 0
        while (found := look()) is None and not self.signals.received:
            now = time.monotonic()
            if alive is not None and (last := self.peers.sign_of_life(alive)) != sign:
                sign, heard = last, now
            if (seconds is not None and now - began > seconds) or (alive is not None and now - heard > GONE):
                return look()  # its last word may have come with its last sign of life
            self.view.tick()
            time.sleep(_LOOK_EVERY)
        return found
