"""scripts/environment.sh: makes .venv, and makes one anew that an interrupted or failed start has left without pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts/environment.sh"
#: `python -m venv [--clear] DIR` as far as the script sees it; FAIL=1: there is no ensurepip, as on Debian without python3-venv
PYTHON = f"""#!/bin/sh
case "$1 $2" in
"-c "*) exec {sys.executable} "$@" ;;
"-m venv") shift 2 ;;
*) exit 9 ;;
esac
echo "venv $*" >>said
if [ "$1" = --clear ]; then shift; rm -rf "$1"; fi
mkdir -p "$1/bin" "$1/lib/python3.11/site-packages/pip"
touch "$1/pyvenv.cfg"
printf '#!/bin/sh\\nif [ ! -e "%s" ]; then exit 1; fi\\necho "$*" >>said\\n' "$1/lib/python3.11/site-packages/pip/whole" >"$1/bin/python"
chmod +x "$1/bin/python"
if [ -n "$FAIL" ]; then echo "ensurepip is not available" >&2; exit 1; fi
touch "$1/lib/python3.11/site-packages/pip/whole"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a Python of the test's own."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("x")
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def source(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": str(root / "python"), **variables}
    environment.pop("MINDRECIPE_VENV", None)
    words = ["bash", "-c", 'source scripts/environment.sh ""; echo "path: ${PATH%%:*}"']
    return subprocess.run(words, cwd=root, env=environment, capture_output=True, text=True, check=False)


def said(root: Path) -> list[str]:
    """What was asked of Python since the last look."""
    lines = (root / "said").read_text().splitlines() if (root / "said").exists() else []
    (root / "said").unlink(missing_ok=True)
    return lines


def installs(root: Path) -> str:
    return f"-m pip install --quiet --disable-pip-version-check -e {root}"


def test_made_once_and_installed_again_when_the_project_has_changed(root: Path) -> None:
    done = source(root)
    assert done.returncode == 0 and done.stdout == f"path: {root}/.venv/bin\n", done.stderr
    assert said(root) == [f"venv {root}/.venv", installs(root)]
    assert source(root).returncode == 0 and said(root) == []
    (root / "pyproject.toml").write_text("y")
    assert source(root).returncode == 0 and said(root) == ["-m pip --version", installs(root)]


def test_one_without_pip_is_made_anew(root: Path) -> None:
    """python3-venv was missing, or Ctrl-C came while pip was being put in place: bin/python is there."""
    assert source(root, FAIL="1").returncode == 1 and (root / ".venv/bin/python").exists()
    assert said(root) == [f"venv {root}/.venv"]
    done = source(root, FAIL="1")
    assert done.returncode == 1 and "ensurepip is not available" in done.stderr and said(root) == [f"venv --clear {root}/.venv"]
    done = source(root)
    assert done.returncode == 0 and "it is made anew" in done.stderr, done.stderr
    assert said(root) == [f"venv --clear {root}/.venv", installs(root)]


def test_one_whose_python_is_gone_is_made_anew(root: Path) -> None:
    """As after an upgrade of the system's: what it was installed for is known."""
    assert source(root).returncode == 0 and said(root)
    (root / ".venv/bin/python").unlink()
    (root / ".venv/lib/python3.11/site-packages/mindspore").mkdir()
    assert source(root).returncode == 0
    assert said(root) == [f"venv --clear {root}/.venv", installs(root)]


def test_another_s_packages_are_not_removed(root: Path) -> None:
    """One that somebody has made without pip (uv does)."""
    package = root / ".venv/lib/python3.11/site-packages/theirs"
    package.mkdir(parents=True)
    (root / ".venv/pyvenv.cfg").touch()
    done = source(root)
    assert done.returncode == 2 and "it was not made by this script" in done.stderr and "MINDRECIPE_VENV=<a new folder>" in done.stderr
    assert package.exists() and said(root) == []
