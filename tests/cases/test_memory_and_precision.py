"""Public faults of recomputation, memory and precision, each by its number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.samples import llama, write
from cases.words import LLAMA_7B, TINY, accepted, not_composed, refused, warned
from mends import findings, quick, run_of
from mindrecipe.bridge.importer import import_file
from mindrecipe.freeze import freeze
from mindrecipe.judge.diagnosis import Diagnosis, diagnose
from mindrecipe.judge.recorded import Recorded
from mindrecipe.lock import lock

pytestmark = pytest.mark.usefixtures("here")
STAGES = (*LLAMA_7B, "parallel.pipeline_stage=4", "parallel.micro_batch_num=4")


def test_c34_sequence_pipe_with_full_recompute() -> None:
    refused(*STAGES, "parallel.seq_split_num=2", "recompute=full", by="mesh.sequence_pipeline")
    refused(*STAGES, "parallel.pipeline_scheduler=seqvpp", by="mesh.sequence_pipeline", mend="parallel.pipeline_scheduler=seqpipe")
    refused(*LLAMA_7B, "native.parallel.pipeline_config.pipeline_scheduler=seqvpp", by="native.refused", says="seqvpp")


def test_c35_operator_patterns(here: Path) -> None:
    pattern = r"feed_forward\.mul"
    recipe = here / "recipes/patterns.yaml"
    recipe.parent.mkdir()
    recipe.write_text(
        f"# @package _global_\ndefaults:\n  - override /model: llama2_tiny\n  - override /recompute: selective\n"
        f"recompute:\n  patterns:\n    {pattern}: true\n",
        encoding="utf-8",
    )
    assert list(run_of("+recipe=patterns").config.recompute.patterns) == [pattern]
    as_value = run_of(*TINY, "recompute=selective", rf"recompute.patterns=['{pattern}']")
    assert as_value.config.recompute.patterns == [pattern]
    not_composed(*TINY, "recompute=selective", rf"recompute.patterns={{'{pattern}': true}}", says="", mend="recompute.patterns=")
    warned(*TINY, "recompute=selective", "recompute.patterns=[feed_forward.mul]", by="recompute.pattern_dots", says="selects nothing")


def test_c37_memory_levels() -> None:
    not_composed(*LLAMA_7B, "memory=O2", says="memory has no option 'O2'", mend="memory=O")
    not_composed(*LLAMA_7B, "memory.optimize_level=OFF", says="is not one of O0, O1")
    refused(*LLAMA_7B, "memory=O1", "native.swap_config.swap=true", by="memory.swap", mend="memory=O0")
    warned(*LLAMA_7B, "memory=O1", "device.jit_level=O1", by="memory.jit_level")


@pytest.mark.parametrize("size", ["57000MB", "58", "0GB", "58gb"])
def test_c37_memory_strings(size: str) -> None:
    refused(*LLAMA_7B, f"memory.max_device_memory='{size}'", by="memory.size")


#: what MindSpore says when a device has no room left (a string of its libraries, after C38; not taken from a machine)
_OUT = (
    "RuntimeError: Device(id:3) memory isn't enough and alloc failed, kernel name: Default/network-DataOrderWrapperCell/"
    "network-LlamaForCausalLM/lm_head-Linear/MatMul-op0, alloc size: 4194304000B."
)


def out_of_memory(folder: Path, *overrides: str) -> Diagnosis:
    """The diagnosis of a run of ``overrides`` on devices, of which rank 3 got no more memory."""
    run = run_of(*overrides)
    freeze(folder, run.derived, overrides, run.lower(), lock(run.derived, run.machine, overrides, run.choices, None))
    (folder / "logs" / "rank_3.log").write_text(f"2025-01-01 [ERROR] DEVICE: {_OUT}\n", encoding="utf-8")
    error = {"rank": 3, "type": "RuntimeError", "message": "Launch kernel failed", "log": "logs/rank_3.log"}
    (folder / "summary.json").write_text(json.dumps({"state": "failed", "exit_code": 1, "errors": [error]}), encoding="utf-8")
    found = diagnose(Recorded(folder))
    assert [each.cause for each in found] == ["out_of_memory"] and "alloc size: 4194304000B" in found[0].evidence
    return found[0]


_MESHES = {
    "replicas": ("parallel.optimizer_parallel=false", "dataset.batch_size=2"),
    "pipeline": ("parallel.pipeline_stage=2", "parallel.micro_batch_num=4"),
    "accumulation": ("parallel.gradient_accumulation_steps=4", "parallel.model_parallel=2", "memory.max_device_memory=50GB"),
    "no replicas": ("parallel.model_parallel=8",),
}


@pytest.mark.parametrize("mesh", _MESHES.values(), ids=_MESHES)
def test_c38_a_full_device_has_remedies_in_order(here: Path, mesh: tuple[str, ...]) -> None:
    """Each is pasted back: no rule objects, and where it changes the mesh, as many devices train the same global batch."""
    overrides = ("+model=llama2_7b", "parallel=semi_auto", "amp=O2", "device=ascend_910b", "launch.devices_per_node=8", *mesh)
    before = run_of(*overrides).derived
    remedies = out_of_memory(here / "run", *overrides).mend.split("; then ")
    assert remedies[0] == "see that nobody else uses the device (npu-smi info)"
    order = [
        "memory.max_device_memory",
        "parallel.data_parallel",
        "dataset.batch_size",
        "model.seq_length",
        "recompute",
        "parallel.optimizer_parallel",
    ]
    heads = [remedy.partition("=")[0] for remedy in remedies[1:]]
    assert [order.index(head) for head in heads] == sorted(order.index(head) for head in heads) and "recompute" in heads
    for remedy in remedies[1:]:
        words = remedy.split()
        kept = [word for word in overrides if word.partition("=")[0] not in {other.partition("=")[0] for other in words}]
        after = run_of(*kept, *words)
        assert not [finding for finding in after.check() if finding.severity == "error"], remedy
        assert after.derived.device_num == before.device_num == 8, remedy
        if "parallel.data_parallel" in remedy:
            assert after.derived.global_batch_size == before.global_batch_size, remedy
    assert ("parallel.data_parallel" in heads) == (mesh != _MESHES["no replicas"])
    assert ("parallel.optimizer_parallel" in heads) == (mesh == _MESHES["replicas"])


def test_c40_a_learning_rate_that_can_only_diverge() -> None:
    """That the run ends as diverged is tested where it runs: tests/cli/test_train_e2e.py."""
    warned(*TINY, "optimizer.learning_rate=1e9", by="optimizer.learning_rate", says="1e+09")


def test_c41_amp_levels() -> None:
    for wrong, near in (("O4", "amp=O"), ("o2", "amp=O2")):
        found = not_composed("+model=llama2_tiny", f"amp={wrong}", says=f"amp has no option {wrong!r}; it has O0, O1, O2, O3", mend=near)
        assert found.where == f"command line: amp={wrong}"
    accepted(*TINY, "amp=O2")
    assert quick(*TINY, "amp=O2").derived.loss_scale.kind == "dynamic"


def test_c41_bfloat16_on_cpu() -> None:
    refused(*TINY, "amp=O2", "amp.dtype=bfloat16", by="device.bfloat16", mend="amp.dtype=float16")


@pytest.mark.parametrize(
    ("scale", "kind", "value"),
    [
        (1.0, "none", 1.0),
        (1, "none", 1.0),
        (128, "fixed", 128.0),
        ({"type": "DynamicLossScaleUpdateCell", "loss_scale_value": 4096, "scale_factor": 2, "scale_window": 500}, "dynamic", 4096.0),
    ],
)
def test_c43_loss_scale_as_number_or_mapping(scale: object, kind: str, value: float, tmp_path: Path) -> None:
    found = import_file(write(llama(runner_wrapper={"type": "MFTrainOneStepCell", "scale_sense": scale}), tmp_path))
    assert found.equal and (found.derived.loss_scale.kind, found.derived.loss_scale.value) == (kind, value)


def test_c43_two_half_types_are_no_error() -> None:
    assert {finding.severity for finding in findings(*LLAMA_7B, "amp.softmax_dtype=float16", make=quick)} == {"advice"}
