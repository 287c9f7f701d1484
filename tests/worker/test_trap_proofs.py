"""What traps.py refuses is real: bare mindformers walks into each of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from frozen import native
from processes import BARE, run_python

pytestmark = pytest.mark.e2e
ROWS = 16  # two steps an epoch


def _bare(data: Path, folder: Path, changes: dict[str, Any]) -> tuple[int, str]:
    """Train llama on two steps' worth of rows with bare mindformers: steps that were done, and what it printed."""
    config = native("llama", folder / "out", data)
    config["callbacks"] = [{"type": "MFLossMonitor"}]
    config["train_dataset"]["data_loader"]["num_samples"] = ROWS
    for section, settings in changes.items():
        place = config["model"]["model_config"] if section == "model" else config[section]
        place.update(settings)
    (folder / "mindformers.yaml").write_text(yaml.safe_dump(config))
    done = run_python(BARE, folder / "mindformers.yaml", folder / "steps.json", cwd=folder, LOCAL_DEFAULT_PATH=str(folder / "out"))
    steps = len(json.loads((folder / "steps.json").read_text())["losses"]) if done.returncode == 0 else 0
    return steps, done.stdout


def test_sink_mode_multiplies_the_epochs(data: Path, tmp_path: Path) -> None:
    assert _bare(data, tmp_path, {"runner_config": {"sink_mode": True}})[0] == 4


def test_stop_step_is_dropped(data: Path, tmp_path: Path) -> None:
    assert _bare(data, tmp_path, {"runner_config": {"stop_step": 1}})[0] == 2


def test_no_more_threads_than_cores(data: Path, tmp_path: Path) -> None:
    """All cores of the host count, also where a process may use only some of them (rules/this_host.py)."""
    steps, said = _bare(data, tmp_path, {"train_dataset": {"num_parallel_workers": (os.cpu_count() or 1) + 1}})
    assert steps == 0 and f"num_parallel_workers exceeds the boundary between 1 and {os.cpu_count()}" in said


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"use_rope_slice": False}, "BatchMatMul"),
        ({"fused_rms_norm": True}, "RmsNorm"),
        ({"use_flash_attention": True}, "FlashAttentionScore"),
    ],
)
def test_kernels_that_cpu_lacks(setting: dict[str, Any], says: str, data: Path, tmp_path: Path) -> None:
    steps, said = _bare(data, tmp_path, {"model": setting})
    assert steps == 0
    assert says in said
