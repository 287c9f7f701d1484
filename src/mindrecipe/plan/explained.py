"""A plan told whole: memory, time and advice of one job, and the same as plain values for scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema import RunConfig
from mindrecipe.plan import clock, memory
from mindrecipe.plan.advice import Advice, advise
from mindrecipe.plan.calibration import efficiency_of
from mindrecipe.plan.clock import Time
from mindrecipe.plan.job import CannotPrice, Job
from mindrecipe.plan.memory import GIB, Memory
from mindrecipe.plan.overrides import overrides
from mindrecipe.plan.search import Candidate


@dataclass(frozen=True, slots=True)
class Explained:
    """``time`` is None where ``unpriced`` says why it is not known."""

    job: Job
    memory: Memory
    time: Time | None
    unpriced: str
    advice: list[Advice]

    @property
    def layout(self) -> str:
        return told(self.job)

    def plain(self) -> dict[str, Any]:
        """Values for JSON: bytes, seconds, shares."""
        return {
            "layout": layout_plain(self.job),
            "device": {"name": self.job.device.name, "memory_bytes": self.memory.capacity, "source": self.job.device.source},
            "fits": self.memory.fits,
            "headroom": self.memory.headroom,
            "stages": [
                {
                    "stage": stage.stage,
                    "layers": stage.layers,
                    "parameters": stage.parameters,
                    "total": stage.total,
                    "items": stage.items,
                    "activations": stage.kinds,
                }
                for stage in self.memory.stages
            ],
            "time": time_plain(self.time) if self.time else None,
            "unpriced": self.unpriced,
            "advice": [
                {"name": each.name, "good": each.good, "what": each.what, "why": each.why, "mend": each.mend} for each in self.advice
            ],
        }


def explain(job: Job, software: str = "mindformers") -> Explained:
    """Price everything of a job; CannotPrice where not even its memory can be priced."""
    held = memory.price(job)
    time, efficiency, unpriced = None, None, ""
    try:
        efficiency = efficiency_of(job, software)
        time = clock.price(job, efficiency)
    except CannotPrice as fault:
        unpriced = str(fault)
    return Explained(job, held, time, unpriced, advise(job, held, efficiency if time else None))


def told(job: Job) -> str:
    """A layout in one line."""
    lay = job.layout
    words = [f"dp {lay.data_parallel} x mp {lay.tensor_parallel} x pp {lay.pipeline} x cp {lay.context_parallel}"]
    words.append(f"{lay.micro_batches} x {lay.micro_batch} sequences a replica")
    words += [f"interleave {lay.interleave}"] if lay.interleave > 1 else []
    words += [lay.schedule] if lay.schedule != "1f1b" and lay.pipeline > 1 else []
    words.append(f"recompute {'per stage' if job.recompute.full_layers else job.recompute.policy}")
    words += ["optimizer sharded"] if lay.sharding != "none" else []
    words += ["sequence parallel"] if lay.sequence_parallel else []
    return ", ".join(words)


def layout_plain(job: Job) -> dict[str, Any]:
    """The layout's axes as values."""
    lay = job.layout
    return {
        "data_parallel": lay.data_parallel,
        "model_parallel": lay.tensor_parallel,
        "pipeline_stage": lay.pipeline,
        "context_parallel": lay.context_parallel,
        "micro_batch": lay.micro_batch,
        "micro_batch_num": lay.micro_batches,
        "pipeline_interleave": lay.interleave,
        "optimizer_parallel": lay.sharding != "none",
        "sequence_parallel": lay.sequence_parallel,
        "recompute": job.recompute.policy,
        "global_batch": lay.global_batch,
    }


def time_plain(time: Time) -> dict[str, Any]:
    """Times as values."""
    return {
        "step_s": time.step,
        "band": time.band,
        "tokens_per_s_per_device": time.tokens_per_s,
        "mfu": time.mfu,
        "hfu": time.hfu,
        "bubble": time.bubble,
        "items_s": time.items,
        "traffic": [
            {"name": each.name, "link": each.link, "times": each.times, "bytes": each.bytes, "seconds_at_peak": each.seconds}
            for each in time.collectives
        ],
    }


def candidate_plain(candidate: Candidate, given: RunConfig) -> dict[str, Any]:
    """A ranked layout as values, with what makes a layout of ``given`` it."""
    return {
        "layout": layout_plain(candidate.job),
        "overrides": overrides(candidate.job, given),
        "peak_bytes": candidate.peak,
        "peak_gib": candidate.peak / GIB,
        **time_plain(candidate.time),
    }
