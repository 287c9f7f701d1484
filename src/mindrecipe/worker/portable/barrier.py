"""The Barrier collective, which CPU lacks, as an AllReduce of one number.

mindformers waits at barriers when it loads and saves checkpoints of several ranks; on CPU that ends in
``Unsupported op [Barrier]``. An AllReduce can not return anywhere before every rank has joined it, which is what a barrier is.
"""

from __future__ import annotations

import time

import mindspore as ms
from mindspore import ops
from mindspore.communication import GlobalComm, comm_func


def barrier(group: str | None = None) -> None:
    """Return when every rank of ``group`` (all of them by default) has called this.

    The operator is launched by itself, not as a graph: mindformers leaves the parallel context inconsistent (``full_batch``) for a
    while during its set-up, and graphs refuse to compile then.
    """
    ops.AllReduce(ops.ReduceOp.SUM, group or GlobalComm.WORLD_COMM_GROUP)(ms.Tensor([1.0], ms.float32)).asnumpy()


_LINGER = 1.0  # s


def part() -> None:
    """Before a rank leaves: let it answer what the others have sent it.

    On CPU each message of a collective is acknowledged by a thread of the rank that got it. A rank whose own part is over and whose
    process ends at once takes that thread with it; a neighbour that has not got its last answer then waits for 30 s and fails
    (``RingAllReduce wait sending failed``). Everything that rank needs was sent, so a moment is enough, and no message is involved.
    """
    time.sleep(_LINGER)


def install() -> None:
    """Replace mindspore's barrier. Before mindformers is imported: its modules bind the function by name."""
    comm_func.barrier = barrier
