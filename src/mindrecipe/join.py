"""Another host than the first finds the run directory that the first works in, however far apart the two were started.

The clocks of hosts and of a file server differ: no time of a file is compared with a time of this host. What counts is that the first
host works in it now: it holds the directory, or its sign of life there goes on (launch/claim.py, launch/peers.py).
"""

from __future__ import annotations

import json
import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.checkpoints import manifest
from mindrecipe.ended import earlier_runs
from mindrecipe.errors import UserError
from mindrecipe.freeze import config_hash
from mindrecipe.launch.claim import holder
from mindrecipe.launch.peers import FOLDER, here_of
from mindrecipe.launch.plan import DEFAULT_PORT
from mindrecipe.lower.checkpoint import in_section, saves
from mindrecipe.measure.view import View
from mindrecipe.runfiles import LOCK, RunFiles

if TYPE_CHECKING:
    from mindrecipe.run import Run

_LOOK_EVERY = 0.5
_UNSEEN = 60.0
"""Seconds after which a folder that the first host must have made long since is not shared: network file systems show it sooner."""
_CONNECT = 1.0


def join(run: Run, view: View) -> Path | None:
    """The run directory in which the first host of this very launch works, waited for as long as the ranks would wait for each other
    (launch.cluster_time_out).

    None: the first host trains, and its directory is not to be seen here: no folder is shared. UserError where one has to be, before
    anything of this host's is touched, or where the first host does not begin in time.
    """
    launch = run.derived.config.launch
    place = Path(run.derived.config.run.dir or "").expanduser().absolute()
    scheduler = (launch.master_addr, launch.master_port or DEFAULT_PORT)
    signs = _Signs()
    began, answered, other = time.monotonic(), None, None
    while (passed := time.monotonic() - began) <= launch.cluster_time_out:
        candidates = _candidates(run, place)
        for path, same in candidates.items():
            if signs.go_on(path):
                if same:
                    return path
                if path == place:
                    raise _of_another(path, launch.node_rank)
                other = path  # of this name, but perhaps another job's
        hidden = not any(candidates.values())
        if hidden and answered is None and _answers(*scheduler):
            answered = time.monotonic()
        if hidden and answered is not None and time.monotonic() - answered > min(_UNSEEN, launch.cluster_time_out / 2):
            if (why := _must_share(run)) is not None:
                raise _not_shared(place, *why)
            view.note(
                f"the first host trains ({scheduler[0]}:{scheduler[1]} answers), and its run directory {place} is not to be seen here: "
                "this host makes one of its own"
            )
            return None
        view.prepare(
            f"waiting for the first host (launch.node_rank=0) to work in {place}: {passed:.0f} s, at most {launch.cluster_time_out} s"
        )
        time.sleep(_LOOK_EVERY)
    if other is not None:
        raise _of_another(other, launch.node_rank)
    raise UserError(
        f"the first host did not begin within {launch.cluster_time_out} s (launch.cluster_time_out): it works in no run directory {place} "
        f"that this host sees, and this host never makes it in its stead",
        where=f"launch.node_rank={launch.node_rank}",
        mend="the same command with launch.node_rank=0 on the first host, in the same folder; or a larger launch.cluster_time_out",
    )


def _of_another(path: Path, node: int | None) -> UserError:
    return UserError(
        f"the first host works in {path}, which is of another configuration than this host was given",
        where=f"launch.node_rank={node}",
        mend="the same words, files and versions on every host",
    )


def _candidates(run: Run, place: Path) -> dict[Path, bool]:
    """Directories of this name in which this host has not worked (those are of other launches); whether each is of this configuration."""
    launch, wanted = run.derived.config.launch, config_hash(run.derived)
    ours = re.compile(rf"{re.escape(place.name)}(-\d+)?")  # as execute.py calls the run directories of later runs
    found = {}
    for path in place.parent.glob("*"):
        worked = RunFiles(path=path).launch_log(launch.node_rank or 0, launch.nodes)
        if ours.fullmatch(path.name) and (lock := _hash(path / LOCK)) is not None and not worked.exists():
            found[path] = lock == wanted
    return found


def _hash(lock: Path) -> str | None:
    """The configuration's hash in a lock; None where there is none to be read: then the first host has not just made it."""
    try:
        return str(json.loads(lock.read_text(encoding="utf-8"))["config_hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class _Signs:
    """What each directory's first host showed at our first look at it."""

    def __init__(self) -> None:
        self._first: dict[Path, int] = {}

    def go_on(self, path: Path) -> bool:
        """Whether the first host works in ``path`` now. On a disk that keeps no locks across hosts it takes two of its signs to tell."""
        try:
            sign = here_of(path / FOLDER, 0).stat().st_mtime_ns
        except OSError:
            return False  # it has not come, or went as we looked
        # only now: to look at the lock is to hold it for a moment, in which the first host could not take it
        return holder(path) is not None or self._first.setdefault(path, sign) != sign


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), _CONNECT).close()
    except OSError:
        return False
    return True


def _must_share(run: Run) -> tuple[str, str, str] | None:
    """Why hosts that share no run directory would not do as asked: why, of which knob, and what to do but share one.

    With checkpoint.resume=auto each host would decide by itself. Where neither has saved anything both start from scratch; where the first
    has, it misses the files of this one's ranks, and refuses them (fit.check_ranks), but for checkpoint.strict=false.
    """
    config = run.derived.config
    given, launch = config.checkpoint, config.launch
    if launch.max_restarts:
        mend = "launch.max_restarts=0 and a scheduler that starts the command again"
        return "hosts that start again together share it", f"launch.max_restarts={launch.max_restarts}", mend
    if in_section(run.derived) and saves(run.derived):
        return "the ranks of all hosts save safetensors into one folder", f"checkpoint.format={given.format}", "checkpoint=off"
    mine = [path for path in earlier_runs(run.derived) if manifest.newest(RunFiles(path=path).checkpoints)]
    if given.resume in ("must", "auto") or given.resume.isdigit():
        why = "each host would go on from what it has itself, the first perhaps from another step"
        never = "checkpoint.resume=never on every host, to start from scratch, in a new run.dir"
        if given.resume != "auto" or not given.strict or mine:
            return f"{why}{f' ({mine[0]} holds checkpoints of this host)' if mine else ''}", f"checkpoint.resume={given.resume}", never
    return None


def _not_shared(place: Path, why: str, where: str, mend: str) -> UserError:
    return UserError(
        f"the first host made no run directory {place} that this one can see: {why}",
        where=where,
        mend=f"run.dir=<a folder that all hosts share>, or {mend}",
    )
