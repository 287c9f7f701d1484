"""amp: the documented table, its two deviations, and the loss scale that goes with it."""

from __future__ import annotations

import itertools

import pytest

from mindrecipe.config.schema import AmpConfig, ModelConfig
from mindrecipe.derive.precision import LEVELS, complete, half_dtype, loss_scale, row_of
from mindrecipe.models.family import family_of
from mindrecipe.models.hardware import CATALOGUE

LLAMA, QWEN3 = (family_of(ModelConfig(family=name)) for name in ("llama", "qwen3"))
NPU, OLD_NPU, CPU = (CATALOGUE[name] for name in ("ascend_910b", "ascend_910a", "cpu"))
KINDS = ("compute", "param", "layernorm", "softmax", "rotary")


@pytest.mark.parametrize(
    "level, half",
    [
        ("O0", set()),
        ("O1", {"compute"}),
        ("O2", {"compute", "softmax", "rotary"}),
        ("O3", {"compute", "param", "layernorm", "softmax", "rotary"}),
    ],
)
def test_what_mindspores_levels_mean(level: str, half: set[str]) -> None:
    """O1: the white list, matrix products. O2: all but the black list, normalisation, and the parameters. O3: everything."""
    assert row_of(level, "bfloat16", NPU, LLAMA) == {kind: "bfloat16" if kind in half else "float32" for kind in KINDS}
    assert list(LEVELS) == ["O0", "O1", "O2", "O3"]


@pytest.mark.parametrize("level", LEVELS)
def test_deviations(level: str) -> None:
    assert row_of(level, "float16", NPU, QWEN3)["rotary"] == "float32", "mcore refuses float16 rotary positions"
    assert row_of(level, "float16", CPU, LLAMA)["layernorm"] == "float32", "the unfused norm overflows in float16"
    plain = row_of(level, "float16", NPU, LLAMA)
    for kind, (hardware, family) in itertools.product(KINDS, [(NPU, QWEN3), (CPU, LLAMA)]):
        if kind not in ("rotary", "layernorm"):
            assert row_of(level, "float16", hardware, family)[kind] == plain[kind]


@pytest.mark.parametrize("hardware, half", [(NPU, "bfloat16"), (OLD_NPU, "float16"), (CPU, "float16")])
def test_auto_dtype(hardware: object, half: str) -> None:
    assert half_dtype(AmpConfig(), hardware) == half  # type: ignore[arg-type]
    assert half_dtype(AmpConfig(dtype="bfloat16"), hardware) == "bfloat16"  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_each_dtype_stays_overridable(kind: str) -> None:
    for level, dtype in itertools.product(LEVELS, ("float16", "bfloat16", "float32")):
        done = complete(AmpConfig(level=level, **{f"{kind}_dtype": dtype}), NPU, LLAMA)
        assert getattr(done, f"{kind}_dtype") == dtype
        others = {other: getattr(done, f"{other}_dtype") for other in KINDS if other != kind}
        assert others == {other: row_of(level, "bfloat16", NPU, LLAMA)[other] for other in others}


@pytest.mark.parametrize(
    "amp, kind, value",
    [
        (AmpConfig(level="O0"), "none", 1.0),
        (AmpConfig(level="O2"), "none", 1.0),
        (AmpConfig(level="O2", dtype="float16"), "dynamic", 65536.0),
        (AmpConfig(level="O0", softmax_dtype="float16"), "dynamic", 65536.0),
        (AmpConfig(level="O2", loss_scale="fixed", loss_scale_value=128), "fixed", 128),
        (AmpConfig(level="O2", dtype="float16", loss_scale="none"), "none", 1.0),
        (AmpConfig(level="O2", dtype="float16", loss_scale_value=2.0, loss_scale_window=7, loss_scale_factor=4), "dynamic", 2.0),
    ],
)
def test_loss_scale(amp: AmpConfig, kind: str, value: float) -> None:
    scale = loss_scale(complete(amp, NPU, LLAMA))
    assert (scale.kind, scale.value) == (kind, value)
    assert (scale.factor, scale.window) == (amp.loss_scale_factor, amp.loss_scale_window)
