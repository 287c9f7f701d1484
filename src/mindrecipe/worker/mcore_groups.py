"""Let mcore models be trained in mindspore's data_parallel mode.

In that mode mindformers sets every size of ``parallel_config`` to 1, and its mcore models then insist that the product of these sizes
is the number of ranks: with two ranks the network is never built. The ranks *are* the data-parallel replicas, so that is what
the process groups are made of here. semi_auto, auto and single-process runs are left as they are.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindformers.parallel_core.training_graph.base_models.gpt import gpt_model
from mindspore.communication import get_group_size

_initialize = gpt_model.initialize_model_parallel


def _initialize_model_parallel(**sizes: Any) -> None:
    if ms.get_auto_parallel_context("parallel_mode") == ms.ParallelMode.DATA_PARALLEL:
        sizes["data_parallel_size"] = get_group_size()
    _initialize(**sizes)


def install() -> None:
    """For networks that are built from now on."""
    gpt_model.initialize_model_parallel = _initialize_model_parallel
