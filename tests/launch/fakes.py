"""Plans of fake ranks, and a look at their processes. Also a program: ``fakes.py RUN_DIR RANKS KEY=VALUE...`` launches one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from mindrecipe.checkpoints.find import find
from mindrecipe.launch import LaunchPlan, RestartPolicy, launch
from mindrecipe.launch.processes import RUN_ID, environment_of
from mindrecipe.measure.view import PlainView, make_view
from said import as_from_a_terminal

HERE = Path(__file__).parent


@dataclass
class Streams:
    """What a person would have read."""

    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)

    def view(self, **options: Any) -> PlainView:
        return PlainView(self.out, self.err, **options)


def fake_plan(run_dir: Path, ranks: int = 1, *, real_msrun: bool = False, **options: Any) -> LaunchPlan:
    env = {key: options.pop(key) for key in list(options) if key.startswith("FAKE_")}
    options.setdefault("total_steps", int(env.get("FAKE_STEPS", 4)))
    options.setdefault("msrun", () if real_msrun else (sys.executable, str(HERE / "fake_msrun.py")))
    options.setdefault("resume_hint", "train checkpoint.resume=must")
    return LaunchPlan(run_dir=run_dir, title="fake", devices_per_node=ranks, worker=(str(HERE / "fake_worker.py"),), env=env, **options)


def goes_on(plan: LaunchPlan) -> Callable[[int | None], tuple[str, ...]]:
    """Another attempt goes on from the newest fake checkpoint, as freeze_start writes it."""

    def again(before: int | None) -> tuple[str, ...]:
        steps = [each.step for each in find(plan.run_dir).complete if before is None or each.step < before]
        step = max(steps, default=0)
        (plan.run_dir / "lock.json").write_text(json.dumps({"derived": {"resume": {"step": step}}}))
        return (f"resuming from step {step}",)

    return again


def processes_of(run_dir: Path) -> list[psutil.Process]:
    """Marked processes that live and work on a run directory: msrun, scheduler, ranks."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = RUN_ID in environment_of(process) and str(run_dir) in process.cmdline()
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def role(process: psutil.Process) -> str:
    """ "msrun", "scheduler", "rank 0", ..."""
    environment = environment_of(process)
    names = {"MS_SCHED": "scheduler", "MS_WORKER": f"rank {environment.get('RANK_ID')}"}
    return names.get(environment.get("MS_ROLE", ""), "msrun" if "--join=True" in process.cmdline() else "rank 0")


#: seconds that anything may take on a machine that is busy with other things; less than a fake run of 5000 steps, or a fake msrun's wait
PATIENCE = 150.0


def wait_for(condition: Any, timeout: float = PATIENCE) -> Any:
    """The first true value of ``condition()``."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def steps_of(run_dir: Path) -> int:
    path = run_dir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def summary_of(run_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "summary.json").read_text())
    return found


class Launcher:
    """A launcher in a process of its own, as a shell would start it; its output goes to a file."""

    def __init__(self, run_dir: Path, ranks: int, **options: Any) -> None:
        self.run_dir = run_dir
        self.output = run_dir.parent / f"output_{options.get('node_rank', 0)}.txt"
        words = [f"{key}={value}" for key, value in options.items()]
        netns = options.get("netns")
        prefix = ["ip", "netns", "exec", netns] if netns else []
        source = Path(__file__).parents[2] / "src"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, __file__, str(run_dir), str(ranks), *words],
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=as_from_a_terminal,  # noqa: PLW1509 - two system calls
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(HERE.parent)])},
            )

    def trains(self, steps: int = 3) -> Launcher:
        wait_for(lambda: steps_of(self.run_dir) >= steps)
        return self

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ends(self) -> int:
        """Its exit code. It must end by itself, long before its ranks would."""
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()

    @property
    def said(self) -> str:
        return self.output.read_text()


def main() -> None:
    run_dir, ranks, *words = sys.argv[1:]
    options: dict[str, Any] = dict(word.split("=", 1) for word in words)
    options.pop("netns", None)
    for name, kind in (
        ("stop_grace", float),
        ("stall_timeout", float),
        ("stall_min", float),
        ("nodes", int),
        ("node_rank", int),
        ("master_port", int),
    ):
        if name in options:
            options[name] = kind(options[name])
    options["saves"] = options.get("saves", "True") == "True"
    options["real_msrun"] = options.get("real_msrun") == "True"
    restarts = RestartPolicy(max_restarts=int(options.pop("max_restarts", 0)), backoff=float(options.pop("backoff", 0.1)))
    plan = fake_plan(Path(run_dir), int(ranks), restarts=restarts, **options)
    outcome = launch(plan, make_view("plain"), goes_on(plan))
    sys.exit(outcome.exit_code)


if __name__ == "__main__":
    main()
