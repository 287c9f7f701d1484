"""A reader that goes away: what trains goes on, and ends with an exit code of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from mindrecipe.cli.main import _ANSWERS
from mindrecipe.cli.verbs import VERBS

HERE = Path(__file__).resolve().parents[1]
#: `train` but for its run, which prints long after its reader has left: the ranks are fake, the launcher and its view are not
TRAINING = """
import sys
from pathlib import Path
from types import SimpleNamespace
from fakes import fake_plan
from mindrecipe import run
from mindrecipe.cli import train
from mindrecipe.launch import launch
from mindrecipe.measure.view import make_view

folder, console, fault = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
plan = fake_plan(folder, 1, FAKE_STEPS=40, **({"FAKE_FAULT": fault} if fault else {}))
made = SimpleNamespace(config=SimpleNamespace(launch=SimpleNamespace(dry_run=False)), launch=lambda: launch(plan, make_view(console)))
run.Run.from_overrides = staticmethod(lambda overrides: made)
sys.argv[1:] = []
train.main()
"""


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE), str(HERE / "launch")]), "TERM": "xterm"}


@pytest.mark.parametrize(
    ("console", "fault", "both", "code"), [("plain", "", False, 0), ("plain", "0:raise@30", True, 1), ("live", "0:raise@30", False, 1)]
)
def test_a_training_outlives_its_reader(tmp_path: Path, console: str, fault: str, both: bool, code: int) -> None:
    """`train | head -1`, with and without 2>&1: all steps are trained, the exit code is the training's own."""
    folder = tmp_path / "run"
    folder.mkdir()
    line = f'"$@" {"2>&1" * both} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}'
    words = ["bash", "-c", line, "bash", sys.executable, "-c", TRAINING, str(folder), console, fault]
    done = subprocess.run(words, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == (29 if fault else 40)
    assert "Traceback" not in done.stderr
    # a live view may have said all it says to a pipe before the reader is gone
    assert both or done.stderr.count("nobody reads the output any more (Broken pipe)") in ([1] if console == "plain" else [0, 1])


def test_a_verdict_is_no_success_because_nobody_reads_it() -> None:
    program = f"'{sys.executable}' -c 'from mindrecipe.cli.main import main; main()' check +model=llama2_tiny run.seed=x 2>&1"
    line = f"{program} | true; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", line], env=environment(), timeout=300, check=False).returncode == 2


def test_every_verb_whose_exit_code_is_a_verdict_outlives_its_readers() -> None:
    """`mindrecipe import x.yaml --verify | head -1` is no proof because its reader has left."""
    judges = {verb for verb, module in VERBS.items() if "raise typer.Exit(" in Path(str(find_spec(module).origin)).read_text()}  # type: ignore[union-attr]
    assert "import" in judges and judges <= _ANSWERS


SWEEP = """
import sys
from types import SimpleNamespace
from hydra.core.hydra_config import HydraConfig
from mindrecipe.cli import train

HydraConfig.get = classmethod(lambda cls: SimpleNamespace(overrides=SimpleNamespace(task=[])))
sys.executable = sys.argv[1]
train._train_in_process({})
"""


def test_a_sweep_that_is_killed_leaves_no_job(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.write_text("#!/usr/bin/env bash\necho $$\nexec sleep 300\n")
    job.chmod(0o755)
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP, str(job)], env=environment(), stdout=subprocess.PIPE, text=True)
    assert sweep.stdout is not None
    process = psutil.Process(int(sweep.stdout.readline()))
    try:
        sweep.send_signal(signal.SIGKILL)
        sweep.wait()
        sweep.stdout.close()
        deadline = time.monotonic() + 100
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the job goes on without its sweep"
            time.sleep(0.05)
    finally:
        if process.is_running():
            process.kill()
