"""mindrecipe plan: memory, time, traffic and layout of a run before it starts."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindrecipe.errors import EXIT_FAILED, UserError

if TYPE_CHECKING:
    from mindrecipe.config.findings import Finding
    from mindrecipe.config.schema import RunConfig
    from mindrecipe.plan.job import Job
    from mindrecipe.run import Run

#: sections of rules whose errors concern a plan; the others' (hosts, data, versions) do not change its figures
_OF_A_LAYOUT = ("amp", "mesh", "model", "recompute")


def plan(
    overrides: Annotated[
        list[str] | None, typer.Argument(help="As for train, e.g. +model=llama2_70b parallel=semi_auto amp=O2.", show_default=False)
    ] = None,
    search: Annotated[bool, typer.Option("--search", help="Find the best layouts for these devices instead of pricing this one.")] = False,
    top: Annotated[int, typer.Option(help="Layouts that --search ranks.", min=1, max=1000)] = 5,
    global_batch: Annotated[
        int | None, typer.Option(help="Sequences of one step that --search keeps; default: the recipe's, at least one a device.", min=1)
    ] = None,
    layers: Annotated[bool, typer.Option("--layers", help="A table by layer as well.")] = False,
    published: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Price the rows of a published table instead of a run.", show_default=False)
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bars of memory as SVG.", show_default=False)] = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the bars of memory as PNG.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON for scripts.")] = False,
) -> None:
    """Plan a run: memory of each stage, time of a step, traffic, advice. Arithmetic only: no device and no mindspore is needed.

    Exit code 0 when it fits (with --search: when something does), 1 when it does not, 2 on bad input.

    \b
    Examples:
      mindrecipe plan +model=llama2_7b parallel=semi_auto amp=O2 device=ascend_910b parallel.model_parallel=8
      mindrecipe plan +model=llama2_70b device=ascend_910b launch.nodes=8 amp=O2 --search
      mindrecipe plan +recipe=llama2_70b_pretrain_64x64g --layers
    """
    from mindrecipe.plan.job import CannotPrice

    if published is not None:
        if overrides or search or layers or svg or png:
            raise UserError("--published prices the rows of a file: it takes neither overrides nor the options of a run")
        _published(published, as_json)
        return
    if not overrides:
        raise UserError("plan needs a run to price", mend="mindrecipe plan +model=llama2_7b parallel=semi_auto amp=O2")
    from mindrecipe.run import Run

    run = Run.from_overrides(overrides)
    if search and (layers or svg or png):
        raise UserError("--search ranks layouts; --layers, --svg and --png are of one: give them with the overrides of the one you take")
    try:
        if search:
            _search(_in_half(run, overrides), run.derived.written, top, global_batch, as_json)
        else:
            _price(run, layers, [path for path in (svg, png) if path], as_json)
    except CannotPrice as fault:
        raise UserError(f"this can't be planned: {fault}") from fault


def _in_half(run: Run, overrides: list[str]) -> Run:
    """The run computing in bfloat16 where nothing was said of its precision and float32 is the default; told on stderr."""
    from mindrecipe.config.schema import AmpConfig
    from mindrecipe.run import Run

    said = run.config.amp != AmpConfig() or any(word.lstrip("+~").startswith("amp") for word in overrides)
    if said or run.derived.hardware.target != "Ascend":
        return run
    print("amp=O2 is taken for the search, as no throughput in float32 was published; give it with the layout you take", file=sys.stderr)
    return Run.from_overrides([*overrides, "amp=O2"])


def _stops(run: Run) -> list[Finding]:
    """What of the model and its layout would not start: figures of it can be read all the same."""
    return [found for found in run.check() if found.severity == "error" and found.rule.partition(".")[0] in _OF_A_LAYOUT]


def _price(run: Run, layers: bool, pictures: list[Path], as_json: bool) -> None:
    from mindrecipe.cli import save_interval
    from mindrecipe.plan import memory
    from mindrecipe.plan.explained import explain

    told, stops = explain(_job(run)), _stops(run)
    step_time = told.time.step if told.time else None
    for path in pictures:
        _draw(told.memory, f"{run.derived.config.run.name}: {told.layout}", path)
    if as_json:
        plain: dict[str, Any] = {"model": run.derived.config.run.name, **told.plain()}
        plain["save_interval"] = save_interval.plain(run.derived, step_time)
        plain["stops"] = [{"rule": each.rule, "what": each.what, "why": each.why, "mend": each.mend} for each in stops]
        if layers:
            plain["layers"] = [dataclasses.asdict(layer) for layer in memory.by_layer(told.job)]
        print(json.dumps(plain, indent=2))
    else:
        from mindrecipe.cli import plan_view

        plan_view.show_plan(told, str(run.derived.config.run.name), stops)
        if layers:
            plan_view.show_layers(memory.by_layer(told.job))
        print(f"\n{save_interval.told(run.derived, step_time)}")
    if not told.memory.fits:
        raise typer.Exit(EXIT_FAILED)


def _job(run: Run) -> Job:
    from mindrecipe.plan.of_run import job_of

    derived = run.derived
    return job_of(derived.config, derived.family, derived.hardware, derived.device_num)


def _draw(held: Any, title: str, path: Path) -> None:
    from mindrecipe.plan.picture import draw

    try:
        draw(held, title, path)
    except OSError as fault:
        raise UserError(f"{path} can't be written: {fault.strerror or fault}") from fault


def _search(run: Run, written: RunConfig, top: int, global_batch: int | None, as_json: bool) -> None:
    """``written``: what the overrides of the layouts are told for."""
    from mindrecipe.plan.planned import search_for

    derived = run.derived
    found, space, base = search_for(derived.config, derived.family, derived.hardware, derived.device_num, global_batch, top=top)
    if as_json:
        from mindrecipe.plan.explained import candidate_plain

        plain = {
            "devices": space.devices,
            "global_batch": space.global_batch,
            "considered": found.considered,
            "fell_out": dict(found.fell_out.most_common()),
            "best": [candidate_plain(candidate, written) for candidate in found.best],
        }
        print(json.dumps(plain, indent=2))
    else:
        from mindrecipe.cli import plan_view

        plan_view.show_found(found, space, base, written)
    if not found.best:
        raise typer.Exit(EXIT_FAILED)


def _published(path: Path, as_json: bool) -> None:
    import csv

    from mindrecipe.plan.published import price_row

    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise UserError(f"{path} can't be read: {getattr(fault, 'strerror', None) or fault}") from fault
    missing = {"model", "device", "seq"} - set(rows[0] if rows else ())
    if missing:
        raise UserError(f"{path} has no column {', '.join(sorted(missing))}: the columns are those of a published table (docs/plan.md)")
    priced = [price_row(row, index) for index, row in enumerate(rows)]
    if as_json:
        print(json.dumps([dataclasses.asdict(row) for row in priced], indent=2))
        return
    from mindrecipe.cli import plan_view

    plan_view.show_published(priced)
