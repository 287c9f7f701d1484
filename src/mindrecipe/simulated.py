"""A run simulated in front of a person: made ready, frozen as any run, its ranks compiled by MindSpore's dry run.

The data set is not needed and not built: rows are made up in the ranks. What was asked to be resumed or loaded is left out: weights
are not read.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from mindrecipe.data.spec import DataFacts
from mindrecipe.derive import Derived
from mindrecipe.errors import EXIT_FAILED, EXIT_OK
from mindrecipe.here import require_imports
from mindrecipe.launch.signals import exit_code
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.view import View
from mindrecipe.prepare import cache_dir
from mindrecipe.resume import Start
from mindrecipe.simulate import Job, Report, simulate, table
from mindrecipe.simulate.pool import Failed, Interrupted
from mindrecipe.simulate.report import as_plain
from mindrecipe.simulate.simulator import REPORT, ready

if TYPE_CHECKING:
    from mindrecipe.run import Run

#: what stands for the data set in mindformers.yaml of a simulated run
MADE_UP = "rows-are-made-up-in-a-simulation.mindrecord"
_STEPS = 1000


def carry_out(run: Run, view: View, *, details: bool = False, as_json: bool = False) -> Outcome:
    """Simulate ``run``, which is sound, and show the report; ``as_json`` prints it, and nothing else, to stdout.

    UserError for what the user can mend. The exit code is 1 where a rank does not fit max_device_memory, or could not be simulated.
    """
    try:
        path, report = simulated(run, view)
    except Failed as failed:
        view.failure(failed.error)
        view.note(f"the whole log: {failed.error.log}")
        return Outcome(state="failed", exit_code=EXIT_FAILED, errors=(failed.error,))
    except Interrupted as interrupted:
        kept = "the same command goes on where it was: ranks that were done are kept"
        view.note(f"stopped; {'with run.imports nothing is kept' if run.config.run.imports else kept}")
        return Outcome(state="interrupted", exit_code=exit_code(interrupted.number))
    if as_json:
        print(json.dumps(as_plain(report), indent=1))
    else:
        for line in table.text(report, width=shutil.get_terminal_size((160, 24)).columns, details=details):
            view.say(line)
        view.say(f"slices and collectives of each rank: {path / REPORT}")
    return Outcome(state="completed", exit_code=EXIT_FAILED if report.fits is False else EXIT_OK)


def simulated(run: Run, view: View) -> tuple[Path, Report]:
    """The run directory of the simulation of ``run``, and its report."""
    require_imports(run.config.run.imports)
    stand_in = ready(job_of(run, Path(run.config.run.root)), view)
    run = run.with_dataset(made_up_data(run.derived))
    given = run.derived.config.run.dir
    path = run.freeze(Path(given).expanduser().absolute() if given is not None else None, Start())
    return path, simulate(job_of(run, path), stand_in, view)


def job_of(run: Run, path: Path) -> Job:
    """What there is to simulate of ``run``, frozen in ``path``."""
    derived, launch = run.derived, run.derived.config.launch
    sharded = derived.config.parallel.mode in ("semi_auto", "auto")
    return Job(
        run_dir=path,
        title=derived.config.run.name or "run",
        device=derived.hardware.name,
        device_num=derived.device_num,
        stages=derived.config.parallel.pipeline_stage if sharded else 1,
        asked=launch.simulate_ranks,
        at_once=launch.simulate_at_once,
        limit=pool_bytes(derived.config.memory.max_device_memory),
        cache=Path(cache_dir(derived.config.dataset.cache_dir)),
        env=launch.env,
        fresh=launch.simulate_again,
        imports=tuple(derived.config.run.imports),
    )


def pool_bytes(size: str | None) -> int | None:
    """MindSpore's string for a size of memory ("57GB") in bytes."""
    return None if size is None else int(float(size.removesuffix("GB")) * 2**30)


def made_up_data(derived: Derived) -> DataFacts:
    """Facts of a data set that is large enough for the schedule, in one epoch."""
    rows = derived.batch.per_loader * derived.batch.num_shards * (derived.config.schedule.total_steps or _STEPS)
    return DataFacts(
        train_files=(MADE_UP,),
        heldout_files=(),
        columns=tuple(derived.config.dataset.columns),
        train_rows=rows,
        heldout_rows=0,
        train_tokens=rows * derived.config.model.seq_length,
        heldout_tokens=0,
        unigram_entropy=None,
        fingerprint="made up for a simulation",
    )
