"""Parameters and FLOPs as pure arithmetic: the published models to the last parameter, and what must hold for any dimensions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mends import quick
from mindrecipe.config.schema import ModelConfig
from mindrecipe.freeze import derived_facts
from mindrecipe.models import llama, mcore
from mindrecipe.models.family import family_of, flops_per_token, matmul_parameters, recomputed_flops
from mindrecipe.models.hardware import CATALOGUE

pytestmark = pytest.mark.usefixtures("here")
#: as the checkpoints of meta-llama and Qwen on the Hugging Face hub count (safetensors metadata)
PUBLISHED = {
    "llama2_7b": 6_738_415_616,
    "llama2_13b": 13_015_864_320,
    "llama2_70b": 68_976_648_192,
    "qwen3_8b": 8_190_735_360,
    "qwen3_32b": 32_762_123_264,
}


@pytest.mark.parametrize("name, count", PUBLISHED.items())
def test_published_models(name: str, count: int) -> None:
    assert quick(f"+model={name}").derived.parameters == count


@pytest.mark.parametrize(
    "hidden, multiple_of, multiplier, width",
    [(4096, 256, None, 11008), (5120, 256, None, 13824), (8192, 256, 1.3, 28672), (8192, 4096, 1.3, 28672), (128, 32, None, 352)],
)
def test_width_of_the_feed_forward_layer(hidden: int, multiple_of: int, multiplier: float | None, width: int) -> None:
    """The published Llama widths from Llama's own rule."""
    assert llama.intermediate_size(ModelConfig(hidden_size=hidden, multiple_of=multiple_of, ffn_dim_multiplier=multiplier)) == width


_models = st.builds(
    ModelConfig,
    family=st.sampled_from(["llama", "qwen3"]),
    seq_length=st.integers(1, 4096),
    num_layers=st.integers(1, 100),
    hidden_size=st.integers(1, 128).map(lambda number: 64 * number),
    num_heads=st.sampled_from([1, 2, 4, 8]),
    num_kv_heads=st.none() | st.sampled_from([1, 2, 4]),
    head_dim=st.none() | st.sampled_from([32, 128]),
    intermediate_size=st.none() | st.integers(1, 30_000),
    vocab_size=st.integers(2, 200_000),
    tie_word_embeddings=st.booleans(),
)


@given(_models)
def test_counts_are_consistent(model: ModelConfig) -> None:
    family = family_of(model)
    done = family.complete(model)
    assert family.complete(done) == done
    count = family.parameters(done)
    one = family.parameters(replace(done, num_layers=1))
    layer = family.parameters(replace(done, num_layers=2)) - one
    assert count == one + (done.num_layers - 1) * layer, "layers are equal"
    untied = family.parameters(replace(done, tie_word_embeddings=False))
    assert untied - family.parameters(replace(done, tie_word_embeddings=True)) == done.vocab_size * done.hidden_size
    # without the embedding, the vectors of norms are all that no matrix product reads
    vectors = untied - done.vocab_size * done.hidden_size - matmul_parameters(done)
    assert 0 < vectors <= (2 * done.num_layers + 1) * done.hidden_size + 2 * done.num_layers * (done.head_dim or 0)


@given(_models, st.integers(1, 4096))
def test_flops(model: ModelConfig, longer: int) -> None:
    done = family_of(model).complete(model)
    flops = flops_per_token(done)
    assert flops > 6 * matmul_parameters(done)
    extra = flops_per_token(replace(done, seq_length=done.seq_length + longer)) - flops
    assert extra == pytest.approx(12 * done.num_layers * done.num_heads * (done.head_dim or 0) * longer)


def test_flops_of_the_published_seven_billion() -> None:
    """PaLM's formula by hand: 6 x (parameters without the embedding) + 12 x 32 x 4096 x 4096."""
    derived = quick("+model=llama2_7b").derived
    norms = (2 * 32 + 1) * 4096
    assert derived.flops_per_token == 6 * (6_738_415_616 - 32000 * 4096 - norms) + 12 * 32 * 4096 * 4096


def test_hardware() -> None:
    for name, hardware in CATALOGUE.items():
        assert hardware.name == name and hardware.title
        assert hardware.target in ("CPU", "Ascend")
        assert hardware.peak_tflops("float16") == hardware.peak_tflops("bfloat16") == hardware.peak_half_tflops
        assert hardware.peak_tflops("float32") == hardware.peak_fp32_tflops
        assert hardware.fused_kernels == (hardware.target == "Ascend")


def test_a_model_without_a_family() -> None:
    with pytest.raises(KeyError):
        family_of(ModelConfig())


def test_recomputation_costs_another_forward_pass_of_what_it_covers() -> None:
    model = quick("+model=llama2_7b").derived.config.model
    assert recomputed_flops(model, "none", None) == 1.0
    full = recomputed_flops(model, "full", None)
    assert full is not None and 1.3 < full < 4 / 3, "all but the output layer"
    assert recomputed_flops(model, "per_stage", [32]) == full
    half = recomputed_flops(model, "per_stage", [8, 8])
    assert half == pytest.approx(1 + (full - 1) / 2)
    attention = recomputed_flops(model, "attention", None)
    assert attention is not None and 1.0 < attention < half
    assert recomputed_flops(model, "selective", None) is None


def test_what_is_not_known_of_a_custom_model_is_not_invented() -> None:
    unknown = quick("model=custom", "run.name=x").derived
    assert unknown.parameters == 0 and unknown.flops_per_token is None
    assert derived_facts(unknown, None)["parameters"] is None and derived_facts(unknown, None)["flops_per_token"] is None
    told = "model.keys={num_layers: n, hidden_size: h, num_heads: a, vocab_size: v}"
    known = quick("model=custom", "run.name=x", told).derived
    assert known.parameters > 0 and known.flops_per_token
    ungated = quick("model=custom", "run.name=x", told, "model.extra={type: GPT2Config}").derived
    assert ungated.flops_per_token and ungated.flops_per_token < known.flops_per_token
    for key in mcore.EXPERTS:
        assert quick("model=custom", "run.name=x", told, f"model.extra={{{key}: 8}}").derived.flops_per_token is None, "the router decides"


_DEEPSEEK = {
    "model_type": "deepseek_v3", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "qk_layernorm": True, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "num_nextn_predict_layers": 0,
}  # fmt: skip
_QWEN = {"model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


def _custom(extra: dict[str, object], **dimensions: int) -> ModelConfig:
    given = {name: name for name in ("num_layers", "hidden_size", "num_heads", "vocab_size")}
    model = ModelConfig(family="custom", architecture="mcore", keys=given, extra=dict(extra), **dimensions)  # type: ignore[arg-type]
    return family_of(model).complete(model)


def test_published_models_with_experts() -> None:
    """As the hub counts them, without the routers' biases (58 x 256), which are not trained, and without multi-token prediction."""
    deepseek = _custom(_DEEPSEEK, num_layers=61, hidden_size=7168, num_heads=128, intermediate_size=18432, vocab_size=129280)
    assert family_of(deepseek).parameters(deepseek) == 671_026_404_352
    # a layer with experts, without their router's bias, the matrix of two streams and three norms
    further = replace(deepseek, extra={**deepseek.extra, "num_nextn_predict_layers": 1})
    attention = 7168 * (1536 + 512 + 64) + 128 * (192 * 1536 + 256 * 512 + 128 * 7168) + 1536 + 512
    experts = 7168 * (3 * 2048 * 257 + 256)
    assert family_of(further).parameters(further) - 671_026_404_352 == attention + experts + 2 * 7168 + 2 * 7168**2 + 3 * 7168
    qwen = _custom(
        _QWEN, num_layers=48, hidden_size=2048, num_heads=32, num_kv_heads=4, head_dim=128, intermediate_size=6144, vocab_size=151936
    )
    assert family_of(qwen).parameters(qwen) == 30_532_122_624


@pytest.mark.parametrize(
    "extra, part",
    [
        ({"attention_bias": True}, "biases"),
        ({"v_head_dim": None}, "v_head_dim is not told"),
        ({"first_k_dense_replace": 0, "moe_layer_freq": 2}, "dense layers between"),
        ({"experimental_attention_variant": "dsa"}, "sparse attention"),
    ],
)
def test_what_is_not_counted_is_named(extra: dict[str, object], part: str) -> None:
    model = _custom({**_DEEPSEEK, **extra}, num_layers=8, hidden_size=1024, num_heads=16, vocab_size=1000)
    with pytest.raises(mcore.NotCounted, match=part):
        mcore.parts_of(model)
    assert family_of(model).parameters(model) > 0, "an estimate"


@pytest.mark.parametrize("key", ["kv_lora_rank", "n_routed_experts", "num_nextn_predict_layers"])
def test_defaults_of_mindformers_are_not_known_here(key: str) -> None:
    model = _custom(
        {name: value for name, value in _DEEPSEEK.items() if name != key}, num_layers=8, hidden_size=1024, num_heads=16, vocab_size=1000
    )
    with pytest.raises(mcore.NotCounted, match=f"{key} is not told"):
        mcore.parts_of(model)
