"""What measuring costs a step, of a real training: with nothing on, with the defaults, with everything (TensorBoard too).

    python benchmarks/monitor_cost.py [--pairs 12] [--steps 4] [--tries 200]

Three trainings take turns as in `mindrecipe bench`. In each of them the CPU time of every hook of the monitor is taken at every step
(monitor_parts.py): the median of a hook over an undisturbed step (15th percentile) is its share, which other work on the machine hardly
touches. Norms of layers are computed in the graph, from sums that clipping needs as well: clipping with them is compiled and timed,
the least of many tries, over clipping alone. What all of it does to the time of a step, threads too: monitor_wall.py.
Targets: defaults below 0.3 % of a step, everything below 1 %. Two minutes of a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from parts import let_trainings_find_them

from mindrecipe.judge import bench, bootstrap

RECIPE = ("+model=llama2_tiny", "evaluate=off", "checkpoint=off", "run.imports=[monitor_parts]")
EVERY, INTERVAL, SHIPPED = 20, 1.0, {"update ratio": 100, "machine use": 5.0}  # often here, to be seen often; and as monitor= has them
OFF = ("monitor.rank_steps=false", "monitor.usage_interval=null")
SIDES = {
    "nothing": (*RECIPE, *OFF),
    "defaults": (*RECIPE, f"monitor.usage_interval={INTERVAL}"),
    "everything": (*RECIPE, "monitor=full", f"monitor.update_ratio_steps={EVERY}", f"monitor.usage_interval={INTERVAL}"),
}
HOOKS = ("begin", "outputs", "end")


def norms_in_graph(shapes: list[tuple[int, ...]], tries: int) -> float:
    """Over what clipping the same gradients takes; norms come back as one tensor, as from the step cell."""
    import mindspore as ms
    from mindformers.core.clip_grad import ClipGradNorm
    from mindformers.wrapper.wrapper import LocalNorm
    from mindspore import nn, ops

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")

    class Clipping(nn.Cell):
        def __init__(self, *, norms: bool) -> None:
            super().__init__()
            self.clip, self.norms, self.concat, self.tells = ClipGradNorm(), LocalNorm(), ops.Concat(), norms

        def construct(self, gradients: Any) -> Any:
            clipped, whole = self.clip(gradients)
            return (clipped, whole, self.concat(self.norms(gradients)[0])) if self.tells else (clipped, whole)

    gradients = tuple(ms.Tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32)) for shape in shapes)
    cells = [Clipping(norms=False), Clipping(norms=True)]
    times: list[list[float]] = [[], []]
    for _ in range(tries):  # in turns
        for cell, took in zip(cells, times, strict=True):
            began = time.perf_counter()
            cell(gradients)[-1].asnumpy()
            took.append(time.perf_counter() - began)
    return max(0.0, min(times[1]) - min(times[0]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tries", type=int, default=200)
    args = parser.parse_args()
    let_trainings_find_them()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "turns"
        sides = dict(zip(SIDES, bench.turns(list(SIDES.values()), folder, pairs=args.pairs, steps=args.steps, told=print), strict=True))
        told = [json.loads(next((folder / letter).rglob("hook_times.json")).read_text()) for letter in "abc"]
        os.environ["LOCAL_DEFAULT_PATH"] = name  # where mindformers writes its logs
        graph = norms_in_graph([tuple(shape) for shape in told[2]["shapes"]], args.tries)
    step = float(bootstrap.undisturbed(np.ravel(sides["nothing"].blocks)))
    print(f"\n| llama2_tiny, undisturbed step {1e3 * step:.0f} ms | us a step | share of a step |\n| --- | --- | --- |")
    for side, spent in zip(SIDES, [each["spent"] for each in told], strict=True):
        lines = {f"{side}: the hooks of a step": sum(statistics.median(spent[hook]) for hook in HOOKS)}
        if spent.get("machine use"):
            lines["machine use, every 5 s, in a thread of its own"] = (
                statistics.median(spent["machine use"]) * step / SHIPPED["machine use"]
            )
        if side == "everything":
            measured = len(spent["update ratio"]) // EVERY
            lines["update ratio, every 100 steps"] = sum(spent["update ratio"]) / measured / SHIPPED["update ratio"]
            lines["TensorBoard's event, many written in one go"] = statistics.fmean(spent["events, written together"])
            lines["norms of layers, in the graph"] = graph
        for what, seconds in lines.items():
            print(f"| {what} | {1e6 * seconds:.0f} | {100 * seconds / step:.3f} % |")
        print(f"| **{side}** | {1e6 * sum(lines.values()):.0f} | **{100 * sum(lines.values()) / step:.3f} %** |")
    parts = {what: 1e6 * statistics.median(told[2]["spent"][what]) for what in ("outputs", "line", "by layer")}
    print("\nof the hooks of a step, with everything: " + ", ".join(f"{what} {took:.0f} us" for what, took in parts.items()))


if __name__ == "__main__":
    main()
