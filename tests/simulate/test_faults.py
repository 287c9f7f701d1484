"""Messages of MindSpore and mindformers, told as faults of ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mindrecipe.config.keys import knobs
from mindrecipe.measure.outcome import RankError
from mindrecipe.simulate import faults


def _error(message: str) -> RankError:
    return RankError(rank=3, type="ValueError", message=message, log="/run/logs/rank_3.log", time=0.0)


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("For 'MultiHeadAttention', the class variable 'n_head' must be a multiple of 'parallel_config.model_parallel'", "simulate.heads"),
        ("For 'ParallelAttention', the class variable 'kv_num_heads' must be a multiple of 'tp', but got 2", "simulate.kv_heads"),
        ("LlamaForCausalLM: 128 is not divisible by 6", "simulate.head_width"),
        ("num_moe_experts (6) should be divisible by expert_model_parallel_size (4)", "simulate.experts"),
        ("For 1F1B Scheduler, MicroBatch num must be larger or equal than StageNum, but got MicroBatch:2", "simulate.micro_batches"),
        (
            "performance may degrade if MoE and tensor parallelismare enabled without also enabling sequence parallelism",
            "simulate.moe_sequence_parallel",
        ),
        ("For pipeline parallelism, batch data must be split into micro batch along one dimension.", "simulate.micro_batches"),
        ("LlamaForCausalLM: The sum of `offset` (2) should equal to remainder of `num_layers` (4) % (pp (2) * 1) = 0", "simulate.layers"),
        ("ulysses_cp and mp is shard attention head, it need cp * mp <= attention head", "simulate.context_parallel_heads"),
        ("context_parallel is only available for flash attention for now", "simulate.context_parallel_flash"),
        ("length of recompute should be equal or less than pipeline_stage number, but get", "simulate.recompute_stages"),
        ("MatMul: The shape 10 cannot be divisible by strategy value 4", "simulate.strategy"),
        ("You should define `accu_grads` when use _MicroStepAllGather parameter:network.x", "simulate.accumulated_gradients"),
    ],
)
def test_known_messages_have_a_rule_and_a_mend(message: str, rule: str) -> None:
    found = faults.explained(_error(message))
    assert found is not None
    assert found.rule == rule
    assert "rank 3" in found.what
    assert found.mend
    assert "{" not in (found.why or "")


def test_code_in_the_traceback_is_no_message() -> None:
    """A line of source may hold the words of another fault; so may the call stack of the network that MindSpore appends."""
    code = "  File x.py, line 1, in f\n    raise ValueError('num_moe_experts (6) should be divisible by 4')\n"
    stack = "C++ Call Stack\n'n_head' must be a multiple of"
    error = RankError(rank=0, type="RuntimeError", message="odd", log="l", time=0.0, traceback=f"{code}RuntimeError: odd\n{stack}")
    assert faults.explained(error) is None
    detail = f"{code}RuntimeError: Failure: operator MatMul init failed\nThe shape 10 cannot be divisible by strategy value 4\n{stack}"
    found = faults.explained(RankError(rank=0, type="RuntimeError", message="Failure", log="l", time=0.0, traceback=detail))
    assert found is not None and found.rule == "simulate.strategy"


def test_why_an_operator_failed_is_read_from_the_log(tmp_path: Path) -> None:
    """The exception of a layout that does not divide names the operator alone."""
    log = tmp_path / "rank_0.log"
    place = "(12,7fa,python):2026-01-01-10:57:14.191.683 [mindspore/ccsrc/frontend/parallel/ops_info/operator_info.cc:248] CheckStrategy]"
    log.write_text(
        "[ERROR] ME(12:14,MainProcess):2026-01-01-10:56:35.981.000 [mindspore/run_check/_check_version.py:350] No module named 'te'\n"
        f"[ERROR] PARALLEL{place} RmsNormInfo3: shape value 127 at dim index 1 cannot be divisible by strategy value 2\n"
        f"[ERROR] PARALLEL{place} RmsNormInfo3 : Init failed.\n"
    )
    error = RankError(rank=0, type="RuntimeError", message="Failure:operator RmsNorm init failed", log=str(log), time=0.0)
    found = faults.explained(error)
    assert found is not None and found.rule == "simulate.strategy"
    assert found.why and found.why.endswith("RmsNormInfo3: shape value 127 at dim index 1 cannot be divisible by strategy value 2")
    assert faults.explained(replace(error, log=str(tmp_path / "none.log"))) is None


def test_what_is_not_known_is_passed_on() -> None:
    assert faults.explained(_error("Segmentation fault")) is None


def test_every_key_that_is_named_is_one() -> None:
    sections = {key.partition(".")[0] for key in knobs()} | {"native"}
    for known in faults._KNOWN:
        for key in known.keys:
            assert key in knobs() or key in sections, key
