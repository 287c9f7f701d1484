"""Rules of profiling."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.rules.registry import TINY, Problem, rule


@rule(
    "profile.window",
    "error",
    "the profiler would record nothing",
    outcome="ignored",
    source="run: exit code 0 and no data; mindformers merge requests 4623, 5441",
    reads="profile: enabled start stop; schedule: total_steps",
    fails=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 profile=steps profile.start=14 profile.stop=12",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 profile=steps profile.start=400 profile.stop=500",
    ],
    passes=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 profile=steps profile.start=14 profile.stop=19",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 profile=steps profile.stop=500 profile.start=150",
    ],
)
def window(d: Derived) -> Iterator[Problem]:
    """The steps to profile end before they begin, or begin after the last step."""
    p, total = d.config.profile, d.config.schedule.total_steps
    if not p.enabled:
        return
    if p.start > p.stop:
        yield Problem(
            f"profile.start={p.start} is after profile.stop={p.stop}",
            ("profile.start", "profile.stop"),
            f"profile.stop={p.start + 5}",
        )
    elif total and p.start > total:
        yield Problem(
            f"profile.start={p.start} is beyond total_steps={total}",
            ("profile.start", "schedule.total_steps"),
            f"profile.start={max(1, total // 2)}",
        )


@rule(
    "profile.ranks",
    "error",
    "no rank would be profiled where one was meant to be",
    outcome="ignored",
    source="mindformers core/callback/callback.py ProfileMonitor._is_profile_required",
    reads="profile: enabled ranks",
    fails=[f"{TINY} profile=steps profile.ranks=[1]", f"{TINY} parallel=data launch.workers=2 profile=steps profile.ranks=[0,2]"],
    passes=[f"{TINY} profile=steps profile.ranks=[0]", f"{TINY} parallel=data launch.workers=2 profile=steps profile.ranks=[0,1]"],
)
def ranks(d: Derived) -> Iterator[Problem]:
    """A rank that is to be profiled does not exist."""
    p = d.config.profile
    beyond = [rank for rank in p.ranks or () if not 0 <= rank < d.device_num] if p.enabled else []
    if beyond:
        told = ",".join(map(str, beyond))
        yield Problem(
            f"profile.ranks has {told}, and this run has the ranks 0 to {d.device_num - 1}", ("profile.ranks",), "'profile.ranks=[0]'"
        )
