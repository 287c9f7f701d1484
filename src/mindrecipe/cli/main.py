"""The `mindrecipe` command: one verb a file."""

from __future__ import annotations

import inspect
import sys
from typing import Annotated, NoReturn

import typer

from mindrecipe.cli.console import run_guarded
from mindrecipe.cli.output import outlive_readers
from mindrecipe.cli.verbs import VERBS, load
from mindrecipe.errors import EXIT_OK

#: verbs that train, or whose exit code is a verdict: a reader that leaves (`mindrecipe compare | tee log`) makes no success of it
_ANSWERS = {"bench", "check", "compare", "data", "diagnose", "diff", "doctor", "drill", "evaluate", "grid", "ladder", "plan", "scale"}
_ANSWERS |= {"import", "simulate"}


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"mindrecipe {version('mindrecipe')}")
        raise typer.Exit


def build(verbs: list[str]) -> typer.Typer:
    """The application with ``verbs``: only the one that was asked for is imported."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Declarative training recipes for MindSpore Transformers. `train` runs one; these commands look at them.",
    )

    @app.callback()
    def root(
        version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    ) -> None:
        del version

    for verb in verbs:
        loaded = load(verb)
        if isinstance(loaded, typer.Typer):  # a verb with verbs of its own
            app.add_typer(loaded, name=verb)
            continue
        # `--seed=5` is then told as what it is: a wrong override, with the right one
        flags_too = bool({"overrides", "words"} & set(inspect.signature(loaded).parameters))
        app.command(verb, context_settings={"ignore_unknown_options": flags_too})(loaded)
    return app


def main() -> NoReturn:
    """Entry point of `mindrecipe`."""
    asked = [word for word in sys.argv[1:2] if word in VERBS]
    if _ANSWERS.intersection(asked):
        outlive_readers()
    run_guarded(lambda: _run(asked or list(VERBS)))


def _run(verbs: list[str]) -> int:
    """Typer prints its own usage errors (exit code 2) and leaves by SystemExit; UserErrors pass through to run_guarded."""
    try:
        typer.main.get_command(build(verbs)).main(prog_name="mindrecipe")
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer makes exit code 1 of it
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            raise ended.__context__ from None
        return ended.code if isinstance(ended.code, int) else EXIT_OK
    return EXIT_OK
