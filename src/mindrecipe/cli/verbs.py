"""The verbs of `mindrecipe` and where each lives."""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable
from typing import Any

VERBS = {
    "ls": "mindrecipe.cli.ls",
    "show": "mindrecipe.cli.show",
    "cp": "mindrecipe.cli.cp",
    "check": "mindrecipe.cli.check",
    "rules": "mindrecipe.cli.rules",
    "explain": "mindrecipe.cli.explain",
    "data": "mindrecipe.cli.data",
    "plan": "mindrecipe.cli.plan",
    "simulate": "mindrecipe.cli.simulate",
    "export": "mindrecipe.cli.export",
    "import": "mindrecipe.cli.import_",
    "diff": "mindrecipe.cli.diff",
    "dump": "mindrecipe.cli.dump",
    "runs": "mindrecipe.cli.runs",
    "baseline": "mindrecipe.cli.baseline",
    "compare": "mindrecipe.cli.compare",
    "bench": "mindrecipe.cli.bench",
    "report": "mindrecipe.cli.report",
    "evaluate": "mindrecipe.cli.evaluate",
    "diagnose": "mindrecipe.cli.diagnose",
    "profile": "mindrecipe.cli.profile",
    "ladder": "mindrecipe.cli.ladder",
    "grid": "mindrecipe.cli.grid",
    "scale": "mindrecipe.cli.scale",
    "doctor": "mindrecipe.cli.doctor",
    "drill": "mindrecipe.cli.drill",
    "logs": "mindrecipe.cli.logs",
}


def load(verb: str) -> Callable[..., Any]:
    """The function of ``verb`` (or the application, where it has verbs of its own): what has that name in its module (import_ for
    import, a word of Python's own)."""
    name = f"{verb}_" if keyword.iskeyword(verb) else verb
    function: Callable[..., Any] = getattr(importlib.import_module(VERBS[verb]), name)
    return function
