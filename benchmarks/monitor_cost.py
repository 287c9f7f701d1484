"""What each measurement costs a step: its own time, the least of many tries, over an undisturbed step.

    python benchmarks/monitor_cost.py RUN [--tries 300]

RUN is a recorded training; its weights' shapes, step time (15th percentile) and record are what the costs are of. The least of many
tries is what the work itself takes: on a machine that does other things a paired training can't resolve a tenth of a per cent. Norms of
layers are computed in the graph: that graph alone is compiled and timed. Targets: defaults below 0.3 % of a step, everything below 1 %.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from mindrecipe.checkpoints.find import find, parameters
from mindrecipe.judge.recorded import Recorded
from mindrecipe.measure.curves import percentile
from mindrecipe.measure.record import RankStep, to_line
from mindrecipe.worker.gauges import UpdateRatio, group_norms
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.usage import Sampler


class Weight:
    """As the training's own: copied to the host by asnumpy."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.values = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    def asnumpy(self) -> Any:
        return self.values


def least(work: Callable[[], object], tries: int) -> float:
    """Seconds of the fastest of ``tries``."""
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def norms_in_graph(shapes: list[tuple[int, ...]], tries: int) -> float:
    """Over what an empty graph of the same inputs takes; norms come back as one tensor, as from the step cell."""
    import mindspore as ms
    from mindformers.wrapper.wrapper import LocalNorm
    from mindspore import nn, ops

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")

    class Norms(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.norms, self.concat = LocalNorm(), ops.Concat()

        def construct(self, gradients: Any) -> Any:
            return self.concat(self.norms(gradients)[0])

    class Nothing(nn.Cell):
        def construct(self, gradients: Any) -> Any:
            return gradients[0][0] + 1.0

    gradients = tuple(ms.Tensor(Weight(shape).values) for shape in shapes)
    norms, nothing = Norms(), Nothing()
    took, empty = (least(lambda cell=cell: cell(gradients).asnumpy(), tries) for cell in (norms, nothing))
    return max(0.0, took - empty)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--tries", type=int, default=300)
    args = parser.parse_args()
    run = Recorded(args.run.absolute())
    weights = {entry.name: entry.shape for entry in parameters(find(run.path).complete[-1])}
    step = percentile([record.step_time for record in run.timed], 0.15)
    assert step is not None
    record, process, every = run.steps[-1], psutil.Process(), 100
    held = [Weight(tuple(shape)) for shape in weights.values()]
    squares = [1.0] * len(weights)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["LOCAL_DEFAULT_PATH"] = name  # where mindformers writes its logs
        journal = Journal(folder / "e", folder / "m", 0, rank_steps=folder / "r", usage=folder / "u")
        own = RankStep(step=1, time=1.0, data_time=record.data_time, compute_time=record.compute_time, other_time=record.other_time)
        sampler = Sampler(journal.usage, 5.0, None)
        ratio = UpdateRatio(1)
        defaults = {
            "a line of metrics.jsonl": least(lambda: journal.step(record), args.tries),
            "a line of the rank's own times": least(lambda: journal.rank_step(own), args.tries),
            "memory": least(lambda: process.memory_info().rss, args.tries),
            "CPU time": least(time.process_time, args.tries),
            "machine use, every 5 s": least(lambda: journal.usage(sampler.sample()), args.tries) * step / 5.0,
        }
        more = {
            "norms of layers, in the graph": norms_in_graph([tuple(shape) for shape in weights.values()], args.tries),
            "norms of layers, by layer": least(lambda: group_norms(list(weights), squares), args.tries),
            f"update ratio, every {every} steps": least(lambda: ratio.after_step(1, held), max(5, args.tries // 10)) / every,
        }
    print(f"| {run.name}, undisturbed step {1e3 * step:.0f} ms, {len(to_line(record))} bytes a line | us a step | share of a step |")
    print("| --- | --- | --- |")
    for group, costs in (("defaults", defaults), ("everything", defaults | more)):
        for what, cost in (defaults if group == "defaults" else more).items():
            print(f"| {what} | {1e6 * cost:.1f} | {100 * cost / step:.4f} % |")
        whole = sum(costs.values())
        print(f"| **{group}** | {1e6 * whole:.1f} | **{100 * whole / step:.3f} %** |")


if __name__ == "__main__":
    main()
