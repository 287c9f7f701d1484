"""mindrecipe import: a mindformers YAML becomes a recipe, with a report of everything in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mindrecipe.cli.console import print_fault, stderr
from mindrecipe.errors import EXIT_FAILED, EXIT_USAGE, UserError


def import_(
    files: Annotated[list[Path], typer.Argument(help="mindformers YAML files.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The recipe to write, e.g. recipes/NAME.yaml; a folder for several files.", show_default=False),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Prove with stock mindformers that the recipe gives the same again.")] = False,
    update: Annotated[bool, typer.Option("--update", help="Write today's names for what older versions called differently.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON, for scripts.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing recipe.")] = False,
) -> None:
    """Turn mindformers YAML into recipes: options recognised, differences sparse, the rest passed through untouched.

    Without -o the recipe is printed. The report goes to stderr. Exit code 0; 1 where the recipe would not give the same
    configuration again; 2 for files that are no training of a language model.

    \b
    Examples:
      mindrecipe import run_llama2_70b.yaml -o recipes/llama2_70b_old.yaml
      mindrecipe import run_llama2_70b.yaml --verify
      mindrecipe import configs/llama2/*.yaml -o recipes/ --json
    """
    from mindrecipe.bridge.importer import Imported, import_file
    from mindrecipe.bridge.verify import verify as prove
    from mindrecipe.bridge.write import recipe_text

    done: list[Imported] = []
    faults: list[tuple[Path, UserError]] = []
    targets = _targets(files, output, force)
    for file, target in zip(files, targets, strict=True):
        try:
            done.append(import_file(file, name=target.stem if target else None, update=update))
        except UserError as fault:
            if len(files) == 1 and not as_json:
                raise
            faults.append((file, fault))
    verdicts = prove(done) if verify and done else [None] * len(done)
    reports: list[Any] = []
    for imported, verdict in zip(done, verdicts, strict=True):
        text = recipe_text(imported)
        target = targets[files.index(imported.original.path)]
        if target is not None:
            _write(target, text)
        reports.append((imported, text, str(target) if target else None, verdict))
    _tell(reports, faults, as_json=as_json, several=len(files) > 1)
    if faults:
        raise typer.Exit(EXIT_USAGE)
    if any(not imported.equal or (verdict is not None and not verdict.equal) for imported, _, _, verdict in reports):
        raise typer.Exit(EXIT_FAILED)


def _targets(files: list[Path], output: Path | None, force: bool) -> list[Path | None]:
    from mindrecipe.bridge.importer import recipe_name

    if output is None:
        return [None] * len(files)
    folder = output.suffix not in (".yaml", ".yml")
    if len(files) > 1 and not folder:
        raise UserError(f"{len(files)} files can't be written to one recipe", where=f"-o {output}", mend="-o recipes/")
    targets = [output / f"{recipe_name(file)}.yaml" if folder else output for file in files]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice is not None:
        raise UserError(f"two of the files would be written to {twice}", mend="import them one by one, each with its own -o")
    there = next((target for target in targets if target.exists()), None)
    if there is not None and not force:
        raise UserError(f"{there} exists", mend="another name, or --force")
    return [*targets]


def _write(target: Path, text: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UserError(f"can't write {target}: {fault.strerror or fault}") from fault


def _tell(reports: list[Any], faults: list[tuple[Path, UserError]], *, as_json: bool, several: bool) -> None:
    from mindrecipe.bridge import report

    if as_json:
        told = [report.as_json(*each) for each in reports]
        told += [
            {"file": str(file), "equal": False, "refused": {"what": fault.what, "where": fault.where, "mend": fault.mend}}
            for file, fault in faults
        ]
        print(json.dumps(told if several else told[0], indent=2, default=str))
        return
    console = stderr()
    for imported, text, written, verdict in reports:
        if written is None:
            print(text, end="")
        report.print_report(console, imported, written, verdict)
    for _, fault in faults:
        print_fault(fault)
