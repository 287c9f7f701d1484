"""What a run was made of: code, packages, machine, configuration and data, as they were when it started."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.derive.machine import Machine
from mindrecipe.freeze import config_hash, derived_facts
from mindrecipe.lower.place import Resume
from mindrecipe.rules.registry import reasons

SCHEMA_VERSION = 1
_PACKAGES = ("mindrecipe", "mindspore", "mindformers", "hydra-core", "omegaconf", "numpy", "tokenizers", "safetensors", "rich")
_ASCEND = Path("/usr/local/Ascend")


def lock(
    derived: Derived, machine: Machine, overrides: tuple[str, ...], choices: dict[str, str], resume: Resume | None, path: Path | None = None
) -> dict[str, Any]:
    """The content of lock.json of a run directory ``path``."""
    return {
        "schema": SCHEMA_VERSION,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": list(overrides),
        "options": choices,
        "tags": derived.config.run.tags,
        "silenced": reasons(derived),
        "config_hash": config_hash(derived),
        "dataset_hash": derived.dataset.fingerprint if derived.dataset else None,
        "git": git_state(Path.cwd()),
        "packages": {name: _version(name) for name in _PACKAGES},
        "python": sys.version.split()[0],
        "machine": {"system": platform.platform(), "cpu": _cpu_name(), "host": platform.node(), **_facts(machine)},
        **toolkit_versions(),
        "derived": derived_facts(derived, resume, path),
    }


def versions() -> dict[str, str | None]:
    """What may make another run of the same configuration: packages, Python, toolkit and driver."""
    return {**{name: _version(name) for name in _PACKAGES}, "python": sys.version.split()[0], **toolkit_versions()}


def _facts(machine: Machine) -> dict[str, Any]:
    facts = asdict(machine)
    del facts["surroundings"]  # answers questions, and holds nothing
    return facts


def toolkit_versions() -> dict[str, str | None]:
    """Versions of the Ascend toolkit (cann) and driver; null where they are not installed.

    MindSpore itself reads compiler/version.info below ASCEND_HOME_PATH (run_check/_check_version.py).
    """
    latest = _ASCEND / "ascend-toolkit/latest"
    home = Path(os.environ.get("ASCEND_HOME_PATH") or latest)
    return {
        "cann": _first_line(home / "compiler/version.info", "version=") or _first_line(latest / "version.cfg", "version"),
        "driver": _first_line(_ASCEND / "driver/version.info", "Version"),
    }


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit and whether files differ from it, of the repository around ``folder``; None outside of one, or without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    status = _git(folder, "status", "--porcelain")
    return {"commit": commit, "dirty": None if status is None else bool(status)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _first_line(path: Path, word: str) -> str | None:
    """The value after ``word`` in a version file of the Ascend toolkit; None where it is not installed."""
    if not path.exists():
        return None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.lower().lstrip("[").startswith(word.lower()):
            return line.partition("=")[2].strip(" []") or line
    return None
