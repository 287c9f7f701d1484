"""From a frozen run directory to the report of its simulated ranks. The one entry point of this package."""

from __future__ import annotations

import json

from mindrecipe.data.cache import ensure_writable
from mindrecipe.data.shared import shared_folder, usable
from mindrecipe.launch.signals import StopSignals
from mindrecipe.measure.view.base import View
from mindrecipe.simulate import faults, standin, table
from mindrecipe.simulate.job import Job
from mindrecipe.simulate.pool import Failed, Pool
from mindrecipe.simulate.report import RankReport, Report, as_plain

REPORT = "simulation.json"


def ready(job: Job, view: View) -> standin.StandIn:
    """The stand-in for CANN, and everything else that can be known to fail before a run directory is made: UserError."""
    job.require_possible()
    ensure_writable(str(job.cache))
    with usable(job.cache):
        shared_folder(job.cache, "simulation", "reports")
    return standin.stand_in(job.cache, lambda: view.note("making a stand-in for CANN (once)"))


def simulate(job: Job, stand_in: standin.StandIn, view: View) -> Report:
    """Simulate the ranks of ``job`` and write simulation.json.

    UserError for a graph that does not compile for a reason we know, Failed for any other failure of a rank, Interrupted for Ctrl-C.
    """
    version = standin.installed_mindspore()[1]
    pool = Pool(job, stand_in, version, lambda done: view.note(_line(job, done)), view.prepare)
    with StopSignals() as signals:
        try:
            ranks = pool.run(signals)
        except Failed as failed:
            known = faults.explained(failed.error)
            if known is None:
                raise
            raise known.as_error() from failed
    report = Report(title=job.title, device=job.device, device_num=job.device_num, stages=job.stages, limit=job.limit, ranks=ranks)
    (job.run_dir / REPORT).write_text(json.dumps(as_plain(report), indent=1) + "\n", encoding="utf-8")
    return report


def _line(job: Job, done: RankReport) -> str:
    source = "kept from an earlier simulation" if done.reused else f"{done.host_seconds:.0f} s here"
    fits = done.fits(job.limit)
    verdict = "" if fits is None else ", fits" if fits else ", does NOT fit"
    return f"rank {done.rank} (stage {done.stage}): peak {table.gib(done.peak)} GiB{verdict}; {source}"
