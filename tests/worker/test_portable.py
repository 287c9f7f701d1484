"""The parts rewritten for CPU compute what they stand in for, and the stock ones fail where they say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.mindspore_inside]


@pytest.fixture(scope="module", autouse=True)
def _mindspore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """mindspore on CPU in graph mode; mindformers, which opens logs while it is imported, in a folder of its own."""
    before, folder = Path.cwd(), tmp_path_factory.mktemp("frameworks")
    os.environ["LOCAL_DEFAULT_PATH"] = str(folder)
    os.chdir(folder)
    import mindspore as ms

    ms.set_device("CPU")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    os.chdir(before)


def _config(**more: Any) -> SimpleNamespace:
    import mindspore as ms

    facts = {
        "attention_dropout": 0.0, "context_parallel_size": 1, "use_alibi_mask": False, "use_ring_attention": False, "window_size": None,
        "use_attn_mask_compression": False, "use_eod_attn_mask_compression": False, "input_layout": "BNSD",
        "track_max_attention_logit": False, "multi_latent_attention": False,
        "kv_channels": 8, "params_dtype": ms.float16, "layernorm_compute_dtype": ms.float16,
        "data_parallel_size": 1, "tensor_model_parallel_size": 1,
    }  # fmt: skip
    return SimpleNamespace(**facts | more)


def test_attention() -> None:
    import mindspore as ms

    from mindrecipe.worker.portable.attention import PortableAttention

    seq, batch, heads, kv_heads, width = 6, 2, 4, 2, 8
    draw = np.random.default_rng(0)
    q, k, v = (draw.standard_normal((seq, batch, n, width)).astype(np.float16) for n in (heads, kv_heads, kv_heads))
    mask = np.triu(np.ones((seq, seq), np.uint8), 1)[None, None]
    out = PortableAttention(_config(), 1)(*map(ms.Tensor, (q, k, v, mask)))
    assert (out.shape, out.dtype) == ((seq, batch, heads * width), ms.float16)
    for head in range(heads):
        qh, kh, vh = q[:, :, head].astype(float), k[:, :, head // 2].astype(float), v[:, :, head // 2].astype(float)
        scores = np.einsum("sbd,tbd->bst", qh, kh) / np.sqrt(width) - 1e9 * mask[0]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = np.einsum("bst,tbd->sbd", weights / weights.sum(-1, keepdims=True), vh)
        np.testing.assert_allclose(out.asnumpy()[..., head * width : (head + 1) * width], expected, atol=2e-3)


@pytest.mark.parametrize(
    "asked", [{"attention_dropout": 0.1}, {"window_size": (8, 0)}, {"input_layout": "TND"}, {"context_parallel_size": 2}]
)
def test_attention_refuses_what_it_can_not(asked: dict[str, Any]) -> None:
    from mindrecipe.worker.portable.attention import PortableAttention

    with pytest.raises(NotImplementedError, match="attention without"):
        PortableAttention(_config(**asked), 1)


def _gradient_of_norm(norm: Any) -> np.ndarray:
    """Gradient by the input, in float16, at the size of activations behind a fresh embedding."""
    import mindspore as ms

    norm.set_train(True)
    x = ms.Tensor(np.random.default_rng(0).normal(0, 0.002, (4, 2, 64)).astype(np.float16))

    def total(x: ms.Tensor) -> ms.Tensor:
        return norm(x).astype(ms.float32).sum()

    return np.asarray(ms.grad(total)(x).asnumpy())


def test_norm_in_half_precision_has_a_gradient() -> None:
    from mindformers.parallel_core.training_graph.transformer.norm import RMSNorm

    from mindrecipe.worker.portable.norm import PortableRMSNorm

    assert not np.isfinite(_gradient_of_norm(RMSNorm(_config(), 64, eps=1e-6))).all(), "mindformers' unfused norm works: ours is not needed"
    assert np.isfinite(_gradient_of_norm(PortableRMSNorm(_config(), 64, eps=1e-6))).all()


def test_llama_norm_in_half_precision_has_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    import mindspore as ms
    from mindformers.models.llama.llama_layer import LlamaRMSNorm

    from mindrecipe.worker.portable import norm

    def make() -> Any:
        return LlamaRMSNorm(64, eps=1e-6, compute_type=ms.float16, fused_kernel=False)

    assert not np.isfinite(_gradient_of_norm(make())).all(), "mindformers' unfused norm works: ours is not needed"
    monkeypatch.setattr(LlamaRMSNorm, "_self_norm", LlamaRMSNorm._self_norm)  # put back afterwards
    norm.install_in_llama()
    assert np.isfinite(_gradient_of_norm(make())).all()


def test_norm_in_single_precision_is_mindformers_own() -> None:
    import mindspore as ms
    from mindformers.parallel_core.training_graph.transformer.norm import RMSNorm

    from mindrecipe.worker.portable.norm import PortableRMSNorm

    config = _config(params_dtype=ms.float32, layernorm_compute_dtype=ms.float32)
    x = ms.Tensor(np.random.default_rng(1).standard_normal((4, 2, 64)).astype(np.float32))
    np.testing.assert_array_equal(PortableRMSNorm(config, 64)(x).asnumpy(), RMSNorm(config, 64)(x).asnumpy())


def test_outer() -> None:
    import mindspore as ms

    from mindrecipe.worker.portable.mcore import PortableOuter

    a, b = np.arange(3, dtype=np.float32), np.arange(1, 5, dtype=np.float32)
    np.testing.assert_array_equal(PortableOuter()(ms.Tensor(a), ms.Tensor(b)).asnumpy(), np.outer(a, b))


@pytest.mark.parametrize(("bad", "overflow"), [(1.0, False), (np.inf, True), (-np.inf, True), (np.nan, True)])
def test_overflow_check_sees_one_bad_number(bad: float, overflow: bool) -> None:
    import mindspore as ms
    from mindspore import nn
    from mindspore.ops import composite

    from mindrecipe.worker.portable.step_cell import PortableTrainOneStepCell

    class Check(nn.Cell):
        get_overflow_status = PortableTrainOneStepCell.get_overflow_status

        def __init__(self) -> None:
            super().__init__()
            self.hyper_map = composite.HyperMap()

        def construct(self, a: ms.Tensor, b: ms.Tensor) -> ms.Tensor:
            return self.get_overflow_status(None, (a, b))

    gradient = np.zeros((3, 5), np.float32)
    gradient[1, 2] = bad
    assert bool(Check()(ms.Tensor(np.ones(4, np.float32)), ms.Tensor(gradient)).asnumpy()) is overflow
