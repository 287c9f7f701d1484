"""Devices that compute less than they could: than the planner expects of this very run, else than is usual."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from mindrecipe.config.convert import to_run_config
from mindrecipe.judge.diagnosis import words
from mindrecipe.judge.diagnosis.registry import LEAST_STEPS, Diagnosis, cause
from mindrecipe.judge.recorded import Recorded
from mindrecipe.models.family import family_of
from mindrecipe.models.hardware import CATALOGUE
from mindrecipe.plan import clock
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.job import CannotPrice
from mindrecipe.plan.of_run import job_of

#: what is low where the planner can't tell, and times its estimate's band where it can: four of five runs lie within one band
LOW_MFU, BANDS = 0.15, 1.5


@cause
def low_mfu(run: Recorded) -> Iterator[Diagnosis]:
    """The devices compute little of what they could."""
    known = [record.mfu for record in run.timed if record.mfu is not None]
    if len(known) < LEAST_STEPS:
        return
    mfu = statistics.median(known)
    try:
        expected, band = planned(run)
    except CannotPrice as fault:
        least, lost, against = LOW_MFU, LOW_MFU - mfu, f"{100 * LOW_MFU:.0f} %, as the planner has no estimate: {fault}"
    else:
        least = expected * (1 - BANDS * band)
        lost = 1 - mfu / expected
        against = f"{100 * least:.1f} %: the plan of this layout on this device is {100 * expected:.1f} %, less {BANDS:g} times its band"
    if mfu >= least:
        return
    apart = int(run.derived.get("model_parallel") or 1) > 1
    yield Diagnosis(
        cause="low_mfu",
        cost=lost,
        what=f"MFU is {100 * mfu:.1f} %: the kernels are too small, or wait for each other",
        evidence="metrics.jsonl: mfu",
        threshold=against,
        mend=words.mend(
            words.larger_batch(run),
            words.half_precision(run),
            "less model parallelism, as far as memory allows" if apart else None,
            words.profile(run) or "mindrecipe profile shows which operators take the time",
        ),
    )


def planned(run: Recorded) -> tuple[float, float]:
    """The MFU that the planner expects of the run, and the relative band of its estimate; CannotPrice where it has none."""
    config, findings = to_run_config(run.config, lambda key: f"config.yaml: {key}")
    if findings:
        raise CannotPrice(f"config.yaml is of another version ({findings[0].what})")
    device = CATALOGUE.get(str(run.derived.get("device")))
    if device is None or config.model.family is None:
        raise CannotPrice(f"device {run.derived.get('device')} is not in the catalogue")
    job = job_of(config, family_of(config.model), device, int(run.derived.get("device_num") or 1))
    time = clock.price(job, efficiency_of(job))
    return time.mfu, time.band
