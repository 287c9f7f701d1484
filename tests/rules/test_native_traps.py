"""What a rank would refuse is an error before anything starts, and what the finding says to write instead is accepted."""

from __future__ import annotations

import pytest

from mends import LARGE, TINY, assert_mends, quick, rules_of

pytestmark = pytest.mark.usefixtures("here")
CPU = (TINY, "device=cpu")
QWEN_CPU = ("+model=qwen3_tiny", "device=cpu")
DATA = (*CPU, "parallel=data", "launch.workers=2")

#: overrides, and what the finding names
WRONG: list[tuple[tuple[str, ...], str]] = [
    ((*CPU, "native.runner_config.sink_mode=true"), "runner_config.sink_mode"),
    ((*CPU, "native.runner_config.sink_mode=null"), "runner_config.sink_mode"),  # its default
    ((*LARGE, "schedule.total_steps=10", "native.runner_config.sink_size=4"), "the last 2 would not be trained"),
    ((*CPU, "native.runner_config.stop_step=7"), "runner_config.stop_step=7"),
    ((*CPU, "native.callbacks.TrainCallBack.stop_step=5"), "TrainCallBack says [5]"),
    ((*CPU, "native.callbacks=[{type: MFLossMonitor}]"), "TrainCallBack says nothing"),
    ((*DATA, "native.parallel.gradients_mean=false"), "gradients_mean"),
    ((*DATA, "native.use_parallel=false"), "use_parallel"),
    ((*CPU, "native.runner_config.gradient_accumulation_steps=4"), "gradient_accumulation_steps"),
    ((*CPU, "native.load_checkpoint=/c", "native.resume_training=true"), "resumes"),
    (("+model=qwen3_tiny", "device=cpu", "native.checkpoint.load_path=/c", "native.checkpoint.no_load_optim=false"), "resumes"),
    ((*DATA, "checkpoint=minutes"), "by the clock"),
    ((*LARGE, "checkpoint=minutes"), "by the clock"),
    ((*QWEN_CPU, "model.use_flash_attention=false"), "use_flash_attention"),
    ((*QWEN_CPU, "native.model.model_config.use_flash_attention=false"), "use_flash_attention"),
    ((*QWEN_CPU, "model.extra.hidden_dropout=0.1"), "hidden_dropout"),
    ((*CPU, "native.model.model_config.use_rope_slice=false"), "use_rope_slice"),
]


@pytest.mark.parametrize(("overrides", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_trap_is_found_before_anything_starts(overrides: tuple[str, ...], says: str) -> None:
    (finding,) = assert_mends(*overrides, make=quick)
    assert finding.rule == "native.trap" and says in finding.what


def test_what_has_a_rule_of_its_own_is_said_once() -> None:
    assert rules_of(*CPU, "launch.workers=2") == {"mesh.standalone": "error"}
    assert rules_of(*CPU, "model.use_flash_attention=true") == {"device.fused_kernels": "error"}
    assert rules_of(*CPU, "model.fused_rms_norm=true") == {"device.fused_kernels": "error"}


def test_what_the_launcher_lowers_is_no_trap() -> None:
    for overrides in (CPU, QWEN_CPU, DATA, LARGE, (*CPU, "checkpoint=minutes"), (*DATA, "checkpoint=steps")):
        assert "native.trap" not in rules_of(*overrides)
