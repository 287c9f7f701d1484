"""What is asked of this host is looked up on this host."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from mindrecipe.derive.surroundings import Here

HERE = Here()


def test_files_folders_and_globs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "odd[1].txt").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path))
    for there in (tmp_path, tmp_path / "a.txt", tmp_path / "*.txt", tmp_path.parent / "**" / "a.txt", tmp_path / "odd[1].txt", "~/a.txt"):
        assert HERE.has(str(there)), there
    for missing in (tmp_path / "b.txt", tmp_path / "*.jsonl", "~/b.txt"):
        assert not HERE.has(str(missing)), missing


def test_modules_are_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "parts_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "optim.py").write_text("raise RuntimeError('imported')")
    monkeypatch.chdir(tmp_path)
    for there in ("parts_of_mine", "parts_of_mine.optim", "sys", "json.decoder"):
        assert HERE.has_module(there), there
    for missing in ("parts_of_yours", "parts_of_mine.loss", "parts_of_mine.optim.more"):
        assert not HERE.has_module(missing), missing


def test_ports_names_and_room(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert HERE.listens(port)
    assert not HERE.listens(port)
    assert HERE.knows("localhost") and HERE.knows("127.0.0.1") and HERE.knows("[::1]") and not HERE.knows("no-such-host.invalid")
    room = HERE.room(str(tmp_path / "not" / "yet"))
    assert room is not None and room > 0
