"""The disk that is made full on purpose."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from mindrecipe.drill import small_disk
from mindrecipe.drill.small_disk import NoDisk, SmallDisk


def test_it_is_full_and_empty_again_and_what_was_written_stays(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    try:
        with SmallDisk(place) as disk:
            (place / "before").write_bytes(b"1" * 9999)
            disk.fill()
            with pytest.raises(OSError, match="No space left") as full:
                (place / "more").write_bytes(b"1" * 9999)
            assert full.value.errno == errno.ENOSPC
            disk.make_room()
            (place / "more").write_bytes(b"1" * 9999)
    except NoDisk as why:
        pytest.skip(f"a file system of its own needs the right to mount: {why}")
    assert [path.name for path in sorted(place.iterdir())] == ["before", "more"]
    assert (place / "more").stat().st_size == 9999 and not place.is_mount()


def test_without_the_right_to_mount_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mount").write_text("#!/bin/sh\necho 'mount: only root can do that' >&2\nexit 1\n")
    (tmp_path / "bin/mount").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(NoDisk, match="only root can do that"), SmallDisk(tmp_path / "disk"):
        raise AssertionError("mounted")
    assert not (tmp_path / "disk").exists()
    monkeypatch.setattr(small_disk.shutil, "which", lambda name: None)
    with pytest.raises(NoDisk, match="no mount on PATH"), SmallDisk(tmp_path / "disk"):
        raise AssertionError("mounted")
