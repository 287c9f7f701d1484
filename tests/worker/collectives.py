"""What ranks do together, without a model: run by msrun on two ranks as `collectives.py DATA OUT`; writes OUT/rank_N.json.

Barrier, mean over ranks, overflow of one rank, mean or sum of gradients, shards of shuffled rows.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

RANK = int(os.environ.get("RANK_ID", "0"))


def outcome(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return str(error)
    return "passed"


def train(cell_class: Any, x: Any, *, mean: bool) -> tuple[bool, list[float]]:
    """One step of SGD, learning rate 1, on sum(w * x): whether it overflowed, and the weights afterwards (they start at 0)."""
    import mindspore as ms
    import numpy as np
    from mindspore import nn

    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=mean)

    class Weighted(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = ms.Parameter(np.zeros(2, np.float32), name="w")

        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return (self.w * x).sum()

    network = Weighted()
    step = cell_class(network, nn.SGD(network.trainable_params(), 1.0))
    outputs = step.set_train()(ms.Tensor(np.array(x, np.float32)))
    return bool(outputs[1].asnumpy()), network.w.asnumpy().tolist()


def main(data: Path, out: Path) -> None:
    import mindspore as ms
    from mindspore.communication import comm_func, init

    if os.environ.get("MS_ROLE") == "MS_SCHED":
        init()
        return
    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    init()
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    said: dict[str, Any] = {"stock_barrier": outcome(comm_func.barrier)}

    from mindrecipe.worker import portable

    portable.before_mindformers()
    said["barrier"] = outcome(comm_func.barrier)  # from here on the ranks are abreast
    time.sleep(0.5 * RANK)
    said["came"] = time.monotonic()  # one clock for all processes of a host
    comm_func.barrier()
    said["left"] = time.monotonic()
    ms.set_auto_parallel_context(full_batch=True)  # as mindformers leaves it during its set-up
    said["barrier_with_full_batch"] = outcome(comm_func.barrier)
    ms.set_auto_parallel_context(full_batch=False)

    from mindformers import MindFormerConfig, build_context

    build_context(MindFormerConfig(context=MindFormerConfig(device_target="CPU", mode=0), use_legacy=True, run_mode="train"))
    ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    from mindrecipe.worker.loss import Agreement, LossShape
    from mindrecipe.worker.portable.step_cell import PortableTrainOneStepCell

    agree = Agreement(LossShape(world=2, stages=1, mean=True, copies=1), RANK)
    agreed = agree(1.0 + RANK, stop=RANK == 1, host_time=0.5 * RANK)
    said["mean"], said["stop"], said["host_times"] = agreed.loss, agreed.stop, agreed.host_times
    said["one_rank_overflows"] = train(PortableTrainOneStepCell, [1.0, float("inf") if RANK else 1.0], mean=True)
    said["gradients_mean"] = train(PortableTrainOneStepCell, [1.0, 1.0 + RANK], mean=True)
    said["gradients_sum"] = train(PortableTrainOneStepCell, [1.0, 1.0 + RANK], mean=False)

    from mindspore import dataset as ds

    ds.config.set_seed(42)
    rows = ds.MindDataset(str(data / "shifted_train.mindrecord"), shuffle=True, num_shards=2, shard_id=RANK)
    epochs = rows.create_tuple_iterator(num_epochs=2, output_numpy=True)
    said["rows"] = [[hashlib.sha256(row[0].tobytes()).hexdigest() for row in epochs] for _ in range(2)]
    (out / f"rank_{RANK}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
