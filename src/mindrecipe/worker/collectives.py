"""``python -m mindrecipe.worker.collectives FOLDER``, on each rank through msrun: how long an all-reduce takes, by its size."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

from mindrecipe.worker import guard
from mindrecipe.worker.environment import Place

SIZES = tuple(4**power for power in range(5, 13))  # 1 KiB to 16 MiB
_WARM_UP, _TIMES = 2, 5


def main(folder: Path) -> int:
    """Measure; rank 0 writes ``all_reduce.json``: size in bytes, median seconds."""
    guard.die_with_parent()
    import mindspore as ms
    from mindspore import ops
    from mindspore.communication import init

    from mindrecipe.worker.portable import barrier

    place = Place.from_environment()
    os.chdir(folder)
    if place.scheduler:
        init()
        return 0
    ms.set_device(os.environ["MINDRECIPE_DEVICE_TARGET"])
    init()
    reduce = ops.AllReduce(ops.ReduceOp.SUM)
    found = []
    for size in SIZES:
        data = ops.ones(size // 4, ms.float32)
        for _ in range(_WARM_UP):
            reduce(data).asnumpy()
        times = []
        for _ in range(_TIMES):
            began = time.perf_counter()
            reduce(data).asnumpy()
            times.append(time.perf_counter() - began)
        found.append({"size": size, "seconds": statistics.median(times)})
    if place.rank == 0:
        (folder / "all_reduce.json").write_text(json.dumps(found), encoding="utf-8")
    if os.environ["MINDRECIPE_DEVICE_TARGET"] == "CPU":
        barrier.part()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
