"""What is left of a run that was stopped after its last step: its held-out evaluation, of its last checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms

from mindrecipe.worker import evaluation, heldout
from mindrecipe.worker.environment import Place
from mindrecipe.worker.journal import Journal
from mindrecipe.worker.rundir import RunDir


def evaluate(run: RunDir, native: Any, place: Place, journal: Journal) -> None:
    """As at the end of training, each rank its share of the batches: the same loss, bit for bit, where the ranks are as many."""

    def network() -> Any:
        # nothing is shared between ranks but their batches, and data parallel's broadcast of weights fails on a forward pass alone
        ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.STAND_ALONE, parameter_broadcast=False)
        return evaluation.network_of(evaluation.alone(native), _weights(run, place))

    heldout.evaluate(run, native, network, place, journal)


def _weights(run: RunDir, place: Place) -> list[str]:
    """This rank's files of the checkpoint. Each holds the whole model (heldout.py refuses others): with more ranks another's will do."""
    saved = run.derived["resume"]
    folder, name = Path(saved["checkpoint"]), saved["file"]
    if name is None:
        return [str(path) for path in sorted(folder.glob("*-model-*.safetensors"))]
    rank = f"rank_{place.rank % len(list(folder.glob('rank_*')))}"
    return [str(folder / rank / name.replace("rank_0", rank))]
