"""Ways to start ranks, and what they leave behind. mindspore lives in child processes only."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindrecipe.launch.ports import reserve_free

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
BARE = ROOT / "benchmarks" / "bare_mindformers.py"


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: our source, this interpreter first in PATH (msrun starts "python")."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MS_", "RANK_", "MINDRECIPE_"))}
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return (
        kept
        | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        | more
    )


def run_python(*arguments: str | Path, cwd: Path, timeout: float = 500, **more: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with ``arguments``; stdout and stderr together. Nothing of it survives."""
    return run_command([sys.executable, *map(str, arguments)], cwd=cwd, timeout=timeout, **more)


def run_command(command: list[str], *, cwd: Path, timeout: float, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in a session of its own, which ends with it."""
    process = subprocess.Popen(
        command, cwd=cwd, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        out, _ = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(command, process.returncode, out, "")


def msrun(*arguments: str | Path, cwd: Path, ranks: int = 2, timeout: float = 500) -> subprocess.CompletedProcess[str]:
    """The same through msrun, on ``ranks`` ranks."""
    tool = shutil.which("msrun", path=environment()["PATH"])
    assert tool is not None
    with reserve_free() as held:
        hosts = [f"--worker_num={ranks}", f"--local_worker_num={ranks}", f"--master_port={held.port}"]
        flags = [*hosts, f"--log_dir={cwd / 'msrun'}", "--join=True"]
        return run_command([tool, *flags, "python", *map(str, arguments)], cwd=cwd, timeout=timeout)


@dataclass(frozen=True)
class Finished:
    """A run that a worker has worked on."""

    path: Path
    code: int
    output: str
    cwd: Path

    def steps(self) -> list[dict[str, Any]]:
        lines = (self.path / "metrics.jsonl").read_text().splitlines() if (self.path / "metrics.jsonl").exists() else []
        return [json.loads(line) for line in lines]

    def losses(self) -> list[float]:
        return [step["loss"] for step in self.steps()]

    def events(self, rank: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.path / "logs" / f"rank_{rank}.events.jsonl").read_text().splitlines()]

    def error(self, rank: int = 0) -> dict[str, Any]:
        last = self.events(rank)[-1]
        assert last["phase"] == "error", self.output[-3000:]
        return dict(last["detail"])

    def heldout(self, rank: int = 0) -> dict[str, Any]:
        return dict(json.loads((self.path / "heldout" / f"rank_{rank}.json").read_text()))
