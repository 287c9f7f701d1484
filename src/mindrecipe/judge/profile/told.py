"""A profile in words: figures, and tables of operators, scopes, steps, allocations and links, for the terminal and the report alike."""

from __future__ import annotations

from collections.abc import Mapping

from mindrecipe.judge.profile.summary import SMALL, Profile
from mindrecipe.measure.view import text

Table = tuple[tuple[str, ...], list[list[str]]]


def figures(profile: Profile) -> list[tuple[str, str]]:
    """(name, value); what the profiler did not record is left out."""
    memory, shares = profile.memory, profile.communication
    mean = profile.mean_operator
    rows: list[tuple[str, str | None]] = [
        ("files", profile.path),
        ("steps", str(len(profile.steps)) if profile.steps else None),
        ("operators a step", None if mean is None else f"{profile.executions:.0f}, {_short(mean)} each"),
        (f"operators below {_short(SMALL)}", None if profile.small is None else _percent(profile.small)),
        ("no operator runs", None if profile.idle is None else f"{_percent(profile.idle)} of a step"),
        ("between two steps", None if profile.gap is None else text.seconds(profile.gap)),
        ("memory allocated", None if memory is None else text.size(memory.allocated)),
        ("memory reserved", None if memory is None or memory.reserved is None else text.size(memory.reserved)),
        ("of it never in use", None if memory is None or memory.fragmentation is None else _percent(memory.fragmentation)),
        ("computing", None if shares is None else text.seconds(shares.computing)),
        ("communication not hidden", None if shares is None else f"{text.seconds(shares.exposed)}, {_percent(shares.exposed_share)}"),
        ("neither", None if shares is None else text.seconds(shares.free)),
    ]
    return [(name, value) for name, value in rows if value]


def tables(profile: Profile, top: int) -> list[Table]:
    """(columns, rows) of everything there is, the ``top`` largest of each; rows are empty where there is nothing."""
    operators = [[each.kind, f"{each.count:.0f}", text.seconds(each.seconds), _percent(each.share)] for each in profile.operators[:top]]
    scopes = [[name, _percent(share)] for name, share in [*profile.scopes.items()][:top]]
    steps = [
        [str(number), text.seconds(step.seconds), _percent(step.idle), "" if step.gap is None else text.seconds(step.gap)]
        for number, step in enumerate(profile.steps, 1)
    ]
    held = [
        [each.name, text.size(each.size), "to the end" if each.seconds is None else text.seconds(each.seconds)]
        for each in (profile.memory.largest[:top] if profile.memory else ())
    ]
    links = [
        [link.source, link.target, link.transport, f"{link.megabytes:.1f}", f"{link.milliseconds:.2f}",
         "" if link.gigabytes_per_s is None else f"{link.gigabytes_per_s:.1f}"]
        for link in sorted(profile.links, key=lambda link: -link.milliseconds)[:top]
    ]  # fmt: skip
    return [
        (("operator", "times a step", "time a step", "share"), operators),
        (("where in the network", "share"), scopes),
        (("profiled step", "time", "no operator runs", "to the next"), steps),
        (("allocation", "size", "held"), held),
        (("from rank", "to rank", "over", "MB", "ms", "GB/s"), links),
    ]


def largest(shares: Mapping[str, float], most: int = 5) -> dict[str, float]:
    """The first ``most`` shares, and all others as one: a bar has as many colours."""
    kept = dict([*shares.items()][:most])
    rest = sum(shares.values()) - sum(kept.values())
    return kept | ({"others": rest} if rest > 1e-9 else {})


def matrix(profile: Profile) -> dict[str, list[float | None]]:
    """MB from the rank of each row to that of each column; empty without links."""
    names = sorted({name for link in profile.links for name in (link.source, link.target)}, key=lambda name: (len(name), name))
    known = {(link.source, link.target): link.megabytes for link in profile.links}
    return {source: [known.get((source, target)) for target in names] for source in names}


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _short(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else text.seconds(seconds)
