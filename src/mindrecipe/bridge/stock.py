"""`python -m mindrecipe.bridge.stock`: pairs of native YAML read by stock mindformers and compared key by key.

Reads jobs (JSON) from stdin and prints answers as the last line of stdout. A process of its own: nothing else of the bridge
imports mindformers. `original` is the user's file; where the import mended or renamed keys (`changed`), those are compared with
`target`, the mended original, and all others with the original itself.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

from mindrecipe.bridge.compare import MISSING, Difference, differences
from mindrecipe.bridge.notes import plain


def main() -> None:
    """Answer the jobs on stdin."""
    jobs = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    from mindformers.tools.register.config import MindFormerConfig

    print("\n" + json.dumps([_answer(job, MindFormerConfig) for job in jobs], default=str))


def _answer(job: dict[str, Any], load: Any) -> dict[str, Any]:
    original, original_refusal = _load(load, job["original"])
    target, _ = _load(load, job["target"])
    lowered, recipe_refusal = _load(load, job["lowered"])
    found: list[Difference] = []
    if lowered is not None and original is not None:
        found = [each for each in differences(lowered, original) if not _is_changed(each, job["changed"])]
    if lowered is not None and target is not None:
        found += [each for each in differences(lowered, target) if not any(each.path == other.path for other in found)]
    shown = [{"key": each.key, "original": _shown(each.right), "recipe": _shown(each.left)} for each in found]
    return {"differences": shown, "original_refusal": original_refusal, "recipe_refusal": recipe_refusal}


def _load(load: Any, path: str) -> tuple[dict[str, Any] | None, str | None]:
    """The configuration as plain dicts, or why mindformers refuses it; it raises whatever the parser, the template or Python raise."""
    try:
        return _plain(load(path)), None
    except Exception as fault:
        return None, f"{type(fault).__name__}: {fault}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    # the template's one default that is an object (StableRankConfig) has no text of its own: equal where it is of one class
    return value if isinstance(value, str | int | float | bool | None) else repr(value).partition(" object at ")[0]


def _shown(value: Any) -> Any:
    return None if value is MISSING else plain(value)


def _is_changed(difference: Difference, changed: list[str]) -> bool:
    """Whether the import said that it changed this key, or one inside it."""
    return any(
        key == difference.key or key.startswith(f"{difference.key}.") or difference.key.startswith(f"{key}.")
        for key in _with_copies(changed)
    )


def _with_copies(changed: list[str]) -> Iterator[str]:
    for key in changed:
        yield key
        if key.startswith("train_dataset."):
            yield "train_dataset_task.dataset_config." + key.removeprefix("train_dataset.")


if __name__ == "__main__":
    main()
