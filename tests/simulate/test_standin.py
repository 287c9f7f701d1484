"""The stand-in for CANN: what is said where it can't be made, and that it is whole where it is."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from mindrecipe.errors import UserError
from mindrecipe.simulate import standin, symbols


def test_no_compiler_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"no g\+\+, nm, readelf") as fault:
        standin.stand_in(tmp_path)
    assert "apt-get install g++" in (fault.value.mend or "")


def test_an_unknown_mindspore_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standin, "installed_mindspore", lambda: (tmp_path, "3.0.0"))
    with pytest.raises(UserError, match=r"mindspore 3\.0\.0 .* known to work with 2\.9\.0"):
        standin.stand_in(tmp_path)


def test_another_build_of_a_known_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "wanted", lambda _: symbols.Wanted(("aclFoo",), (), ("libascendcl.so",)))
    monkeypatch.setattr(standin, "require_tools", lambda: None)
    with pytest.raises(UserError, match="other symbols"):
        standin.stand_in(tmp_path)
    assert not list(tmp_path.rglob("cann"))


def test_every_name_is_given_once() -> None:
    source = standin._names(["aclInit", "_ZTVN2ge5GraphE"])
    assert source.count(".globl aclInit") == source.count(f".set aclInit,{standin._NONE_CALLS}") == 1
    assert ".comm _ZTVN2ge5GraphE" in source


@pytest.mark.e2e
@pytest.mark.skipif(platform.machine() != "x86_64", reason="a build of MindSpore that is not known")
def test_the_stand_in_has_all_that_the_plugin_asks_for(tmp_path: Path) -> None:
    made = standin.stand_in(tmp_path)
    wanted = symbols.wanted(standin.installed_mindspore()[0])
    have = subprocess.run(
        ["nm", "-D", "--defined-only", str(made.root / "lib64/libascendcl.so")], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in have.stdout.splitlines()}
    assert set(wanted.linked) <= names
    assert set(wanted.named) <= names
    assert {path.name for path in (made.root / "lib64").iterdir()} >= set(wanted.sonames)
    assert standin.stand_in(tmp_path) == made
    assert not list(made.root.parent.glob(".making-*"))
