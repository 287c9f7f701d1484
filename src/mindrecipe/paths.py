"""Where the shipped conf/, recipes/ and scripts/ are: inside the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """The shipped folder of that name ("conf", "recipes", "scripts").

    A wheel carries them as package data; an editable install finds them two levels above the package.
    """
    for candidate in (_PACKAGE / folder, _PACKAGE.parents[1] / folder):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"mindrecipe's own folder {folder!r} is missing beside {_PACKAGE}: the installation is broken")
