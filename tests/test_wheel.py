"""The built wheel holds what `train` needs, and works from any folder without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(target), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = target.glob("*.whl")
    return built


def test_every_config_file_and_recipe_is_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        f"mindrecipe/{path.relative_to(ROOT).as_posix()}" for folder in ("conf", "recipes") for path in (ROOT / folder).rglob("*.yaml")
    }
    assert len(shipped) > 40 and shipped <= inside
    started = {info.filename for info in zipfile.ZipFile(wheel).infolist() if info.external_attr >> 16 & 0o100}
    assert {f"mindrecipe/scripts/{name}" for name in ("msrun_local.sh", "msrun_node.sh", "slurm.sbatch")} <= started
    assert "mindrecipe/scripts/processes.sh" in inside
    assert "mindrecipe/py.typed" in inside and not any(name.startswith(("tests/", "docs/")) for name in inside)


def test_an_installed_wheel_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True)

    def run(code: str, *words: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-c", f"import sys; {code}", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=elsewhere, env=env).stdout

    assert run("import mindrecipe; print(mindrecipe.__file__)").startswith(str(site)), "not the checkout's"
    assert "llama2_tiny" in run("from mindrecipe.cli.main import main; main()", "ls")
    report = json.loads(run("from mindrecipe.cli.main import main; main()", "check", "+recipe=tiny_cpu", "--json"))
    assert not [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert "num_layers: 32" in run("from mindrecipe.cli.train import main; main()", "+model=llama2_7b", "--cfg", "job")
    assert list(elsewhere.iterdir()) == [], "nothing is written"
