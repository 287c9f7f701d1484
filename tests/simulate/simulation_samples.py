"""Small stand-ins for what simulated ranks leave."""

from __future__ import annotations

from mindrecipe.measure.holdings import Held, Holdings
from mindrecipe.simulate.collectives import Collective
from mindrecipe.simulate.report import MIB, RankReport, Report

WEIGHT = Held(name="model.layers.0.w.weight", kind="weight", full=(1024, 1024), shape=(512, 1024), dtype="Float32")
STATE = Held(name="adam_m.model.layers.0.w.weight", kind="state", full=(1024, 1024), shape=(256, 1024), dtype="Float32")
SUM = Collective(operator="AllReduce", ranks=(0, 1), dtype="BFloat16", shape="(128, 1024)", bytes=262144, count=8)


def holdings(rank: int = 0, peak: int = 700 * MIB) -> Holdings:
    return Holdings(rank=rank, held=(WEIGHT, STATE), peak_bytes=peak, compile_seconds=12.5)


def rank_report(rank: int = 0, stage: int = 0, peak: int = 700 * MIB) -> RankReport:
    return RankReport(
        rank=rank,
        stage=stage,
        holdings=holdings(rank, peak),
        peak_with_fragments=peak + 8 * MIB,
        collectives=(SUM,),
        operators=2323,
        host_seconds=31.0,
        host_bytes=900 * MIB,
    )


def report(limit: int | None = 1024 * MIB) -> Report:
    ranks = (rank_report(0, 0), rank_report(4, 1, 900 * MIB))
    return Report(title="tiny", device="ascend_910b", device_num=8, stages=2, limit=limit, ranks=ranks)
