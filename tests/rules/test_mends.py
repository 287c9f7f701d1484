"""Mends of runs that nobody thought of: whatever knobs come together, pasting a mend removes what it was offered for."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mends import LARGE, alternatives, errors, findings, pasted, quick
from mindrecipe.errors import UserError

#: raise it for a long search
EXAMPLES = int(os.environ.get("MINDRECIPE_FUZZ", "40"))
pytestmark = pytest.mark.usefixtures("here")
_few = st.sampled_from([1, 2, 3, 4, 8])
_KNOBS = {
    "parallel.model_parallel": _few,
    "parallel.pipeline_stage": _few,
    "parallel.context_parallel": st.sampled_from([1, 2]),
    "parallel.micro_batch_num": st.sampled_from([1, 2, 8]),
    "parallel.pipeline_interleave": st.sampled_from([1, 2]),
    "parallel.gradient_accumulation_steps": st.sampled_from([1, 4]),
    "parallel.use_seq_parallel": st.sampled_from(["true", "false"]),
    "parallel.vocab_emb_dp": st.sampled_from(["true", "false", "null"]),
    "parallel.optimizer_weight_shard_size": st.sampled_from(["null", 2, 3]),
    "parallel.seq_split_num": st.sampled_from([1, 2, 3]),
    "model.num_layers": st.sampled_from([1, 7, 30, 32, 61]),
    "model.num_heads": st.sampled_from([2, 3, 32]),
    "model.num_kv_heads": st.sampled_from(["null", 1, 3, 8]),
    "model.hidden_size": st.sampled_from([4096, 4100, 130]),
    "model.vocab_size": st.sampled_from([32000, 50257, 300]),
    "model.offset": st.sampled_from(["0", "1", "[1]", "[1,1]", "[0,1,1,0]"]),
    "model.seq_length": st.sampled_from([4096, 4097]),
    "model.tie_word_embeddings": st.sampled_from(["true", "false"]),
    "recompute": st.sampled_from(["none", "full", "selective", "per_stage"]),
    "recompute.layers": st.sampled_from(["null", "[1]", "[1,2]"]),
    "amp.dtype": st.sampled_from(["auto", "float16", "bfloat16"]),
    "amp.softmax_dtype": st.sampled_from(["null", "float16", "float32"]),
    "device": st.sampled_from(["ascend_910b", "ascend_910a", "cpu"]),
    "schedule": st.sampled_from(["cosine", "wsd", "linear", "polynomial", "cosine_annealing"]),
    "schedule.total_steps": st.sampled_from(["null", 1, 10, 1000]),
    "schedule.warmup_steps": st.sampled_from(["null", 0, 10]),
    "schedule.lr_end": st.sampled_from([0, 1e-4, 1]),
    "schedule.decay_steps": st.sampled_from(["null", 5]),
    "optimizer.betas": st.sampled_from(["null", "[0.9]", "[0.9,0.99]"]),
    "optimizer.type": st.sampled_from(["AdamW", "SGD", "Momentum", "nope"]),
    "checkpoint.save_steps": st.sampled_from(["null", 5000]),
    "checkpoint.save_minutes": st.sampled_from(["null", 5]),
    "checkpoint.save_final": st.sampled_from(["true", "false"]),
    "launch.devices_per_node": st.sampled_from(["null", 6, 8, 16]),
}
_runs = st.lists(st.sampled_from(sorted(_KNOBS)), unique=True, max_size=8).flatmap(
    lambda keys: st.tuples(*(_KNOBS[key].map(lambda value, key=key: f"{key}={value}") for key in sorted(keys)))
)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from(["llama2_7b", "qwen3_8b"]), _runs)
def test_a_pasted_mend_removes_the_finding(model: str, knobs: tuple[str, ...]) -> None:
    overrides = (f"+model={model}", *LARGE[1:], *knobs)
    for finding in findings(*overrides, make=quick):
        for mend in alternatives(finding.mend):
            left = findings(*pasted(overrides, finding, mend), make=quick)
            assert (finding.rule, finding.what) not in {(other.rule, other.what) for other in left}, mend


@settings(max_examples=EXAMPLES // 2)
@given(st.sampled_from(["llama2_7b", "qwen3_8b"]), _runs)
def test_following_the_first_mend_again_and_again_ends_in_a_sound_run(model: str, knobs: tuple[str, ...]) -> None:
    """A person who always pastes the first mend of the first error arrives, and soon."""
    overrides: tuple[str, ...] = (f"+model={model}", *LARGE[1:], *knobs)
    for _ in range(25):
        left = errors(*overrides, make=quick)
        if not left:
            return
        overrides = pasted(overrides, left[0], alternatives(left[0].mend)[0])
    raise AssertionError(f"still {[finding.what for finding in left]} after {overrides}")


@settings(max_examples=EXAMPLES)
@given(_runs)
def test_rules_never_raise_and_lowering_a_sound_run_never_fails(knobs: tuple[str, ...]) -> None:
    run = quick(*LARGE, *knobs)
    if not [finding for finding in run.check() if finding.severity == "error"]:
        try:
            native = run.lower()
        except UserError as fault:
            assert "can't be written without schedule.total_steps" in fault.what
            return
        assert native["run_mode"] == "train"
