"""Where the ranks hold the loss of their own rows, the job's loss is their mean."""

from __future__ import annotations

from types import SimpleNamespace

import mindspore as ms
import pytest

from mindrecipe.worker.loss import LossShape


class _Native(SimpleNamespace):
    def get(self, key: str, default: object = None) -> object:
        return getattr(self, key, default)


@pytest.mark.parametrize(
    ("mode", "mean"), [("data_parallel", True), ("hybrid_parallel", True), ("semi_auto_parallel", False), ("stand_alone", False)]
)
def test_the_mean_over_ranks(mode: str, mean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ms, "get_auto_parallel_context", {"pipeline_stages": 1, "parallel_mode": mode}.__getitem__)
    native = _Native(runner_config=SimpleNamespace(gradient_accumulation_steps=1), parallel_config=SimpleNamespace(micro_batch_num=1))
    assert LossShape.of(native, world=2).mean is mean
    assert not LossShape.of(native, world=1).mean
