"""The report of an import: for the terminal in words, for scripts as plain values."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from mindrecipe.bridge.importer import Imported
from mindrecipe.bridge.notes import KINDS, Note, plain
from mindrecipe.bridge.raise_.parallel import FIRST_HOST
from mindrecipe.bridge.verify import Verdict

_STYLES = {
    "recognised": "green",
    "passed": "cyan",
    "dead": "dim",
    "renamed": "yellow",
    "mended": "yellow",
    "wrong": "bold red",
    "effect": "magenta",
    "differs": "bold red",
}
#: told as one line of keys: there are many, and nothing is to be done about them
_BRIEF = ("recognised", "passed")
_WIDTH = 100
_ALWAYS = "as mindrecipe always writes it"


def as_json(imported: Imported, recipe: str, written: str | None, verdict: Verdict | None) -> dict[str, Any]:
    """Everything that is known of an import, as plain values."""
    derived = imported.derived
    report: dict[str, Any] = {
        "file": str(imported.original.path),
        "bases": [str(path) for path in imported.original.bases],
        "recipe": imported.name,
        "written": written,
        "choices": imported.choices,
        "equal": imported.equal,
        "figures": {
            "global_batch_size": derived.global_batch_size,
            "tokens_per_step": derived.tokens_per_step,
            "device_num": derived.device_num,
            "parameters": derived.parameters or None,
        },
    }
    for kind in KINDS:
        report[kind] = [_plain(note) for note in imported.of(kind)]
    if verdict is not None:
        report["verify"] = {
            "equal": verdict.equal,
            "differences": list(verdict.differences),
            "original_refusal": verdict.original_refusal,
            "recipe_refusal": verdict.recipe_refusal,
        }
    report["text"] = recipe
    return report


def _plain(note: Note) -> dict[str, Any]:
    values = {"key": note.key, "text": note.text, "value": note.value, "mend": note.mend, "line": note.line, "source": note.source}
    return {name: plain(value) for name, value in values.items() if value is not None}


def print_report(console: Console, imported: Imported, written: str | None, verdict: Verdict | None) -> None:
    """The report in words."""
    derived = imported.derived
    head = f"{imported.original.path} -> {written or f'recipe {imported.name}'}"
    console.print(Text(head, "bold"))
    console.print("  " + " ".join(f"{group}={option}" for group, option in imported.choices.items()))
    size = f", {derived.parameters / 1e9:.2f} billion parameters" if derived.parameters else ""
    console.print(
        f"  {derived.device_num} x {derived.hardware.title}, global batch {derived.global_batch_size} x "
        f"{derived.config.model.seq_length} tokens{size}"
    )
    if imported.config.launch.nodes > 1:
        console.print(f"  launch.master_addr={FIRST_HOST} is to be written: the file does not say where its hosts meet")
    for kind, heading in KINDS.items():
        notes = imported.of(kind)
        if notes and kind in _BRIEF:
            _print_keys(console, kind, heading, notes)
        elif notes:
            console.print(Text(f"{heading} ({len(notes)})", _STYLES[kind]))
            for note in notes:
                _print_note(console, note)
    if verdict is not None:
        _print_verdict(console, verdict)


def _print_keys(console: Console, kind: str, heading: str, notes: list[Note]) -> None:
    console.print(Text(f"{heading} ({len(notes)})", _STYLES[kind]))
    line = "   "
    for note in notes:
        renamed = kind == "recognised" and note.text != _ALWAYS and note.text.rsplit(".", 1)[-1] != note.key.rsplit(".", 1)[-1]
        word = f" {note.key}" + (f" as {note.text}" if renamed else "")
        if len(line) + len(word) > _WIDTH:
            console.print(Text(line, "dim"))
            line = "   "
        line += word + ","
    console.print(Text(line.rstrip(","), "dim"))


def _print_note(console: Console, note: Note) -> None:
    place = f" (line {note.line})" if note.line else ""
    mend = f"; write {note.mend}" if note.mend and note.kind in ("wrong", "effect") else ""
    console.print(Text.assemble("  ", (note.key or "the file", "bold"), (place, "dim"), f": {note.text}{mend}"))


def _print_verdict(console: Console, verdict: Verdict) -> None:
    if verdict.original_refusal is not None:
        console.print(Text.assemble(("verify: ", "bold"), f"stock mindformers can't load the original: {verdict.original_refusal}"))
    if verdict.recipe_refusal is not None:
        console.print(Text.assemble(("verify: ", "bold red"), f"stock mindformers refuses what the recipe gives: {verdict.recipe_refusal}"))
    elif verdict.equal:
        what = "the original" if verdict.original_refusal is None else "the mended original"
        console.print(Text.assemble(("verify: ", "bold green"), f"composed, lowered and read by mindformers it equals {what}, key by key"))
    for each in verdict.differences:
        console.print(
            Text.assemble(("  differs: ", "bold red"), f"{each['key']}: {each['original']!r}, and from the recipe {each['recipe']!r}")
        )
