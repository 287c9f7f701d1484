"""A run simulated on this machine: MindSpore's dry run of an Ascend job, rank by rank, without an NPU and without CANN.

Never imports mindspore: it starts the worker, which does.
"""

from mindrecipe.simulate.job import Job
from mindrecipe.simulate.report import RankReport, Report
from mindrecipe.simulate.simulator import simulate

__all__ = ["Job", "RankReport", "Report", "simulate"]
