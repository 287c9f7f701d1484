"""Fixtures of the data room's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty cache folder."""
    path = tmp_path / "cache"
    path.mkdir()
    return path
