"""A small sharded model simulated for real: MindSpore compiles its stages for Ascend on this machine."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
MESH = [
    "+model=llama2_tiny", "parallel=semi_auto", "amp=O2", "dataset.batch_size=1",
    "parallel.data_parallel=2", "parallel.model_parallel=2", "parallel.pipeline_stage=2", "parallel.micro_batch_num=2",
]  # fmt: skip

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="a build of MindSpore that is not known"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler"),
]


def _simulate(tmp_path: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    line = [str(BIN / "mindrecipe"), "simulate", *words, f"run.dir={tmp_path / 'run'}", "--again"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    found = tmp_path / "run/simulation.json"
    return done.returncode, json.loads(found.read_text()) if found.exists() else {}, done.stdout + done.stderr


def _shapes(rank: dict[str, Any], kind: str) -> dict[str, list[int]]:
    return {each["name"]: each["shape"] for each in rank["holdings"]["held"] if each["kind"] == kind}


def test_stages_hold_their_own_layers_and_slices(tmp_path: Path) -> None:
    skips = ["watch.grad_spike=skip", "watch.grad_norm_limit=3"]  # a branch on data, which a dry run can't follow
    code, report, said = _simulate(tmp_path, *MESH, "parallel.optimizer_parallel=false", *skips)
    assert code == 0, said
    assert "fits: rank" in said
    first, last = report["ranks"]
    assert [(rank["rank"], rank["stage"]) for rank in (first, last)] == [(0, 0), (4, 1)]
    weights = _shapes(first, "weight")
    assert weights["model.layers.0.attention.wq.weight"] == [64, 128]  # of [128, 128], over two tensor-parallel devices
    assert weights["model.tok_embeddings.embedding_weight"] == [512, 128]
    assert not any("layers.2." in name or "lm_head" in name for name in weights)
    assert any("layers.2." in name for name in _shapes(last, "weight"))
    states = {name.partition(".")[2]: shape for name, shape in _shapes(first, "state").items() if name.startswith("adam_m.")}
    assert states == weights
    held = sum(4 * _size(each["shape"]) for each in first["holdings"]["held"])
    assert held < first["peak_bytes"] < 64 << 20
    operators = {(each["operator"], tuple(each["ranks"])) for each in first["collectives"]}
    assert ("Send", (0, 4)) in operators
    assert ("AllReduce", (0, 1)) in operators


def test_recomputation_sharded_states_sequence_and_context_parallel(tmp_path: Path) -> None:
    words = [*MESH, "parallel.optimizer_parallel=true", "parallel.use_seq_parallel=true", "recompute=full", "--ranks", "0"]
    words += ["parallel.context_parallel=2", "parallel.context_parallel_algo=ulysses_cp", "launch.nodes=2", "launch.devices_per_node=8"]
    code, report, said = _simulate(tmp_path, *words)
    assert code == 0, said
    (first,) = report["ranks"]
    # over the two replicas and the two of context parallelism, which are replicas to the weights
    assert _shapes(first, "weight")["model.layers.0.attention.wq.weight"] == [16, 128]
    operators = {(each["operator"], tuple(each["ranks"])) for each in first["collectives"]}
    assert ("ReduceScatter", (0, 1)) in operators  # sequence parallel
    assert ("AllGather", (0, 2, 4, 6)) in operators  # sharded weights
    assert ("AllGather", (0, 2)) in operators  # heads for positions


def test_mcore_with_context_parallel(tmp_path: Path) -> None:
    axes = ["model_parallel=2", "context_parallel=2", "pipeline_stage=2", "micro_batch_num=2"]
    words = ["+model=qwen3_tiny", "parallel=semi_auto", "amp=O2", "recompute=full", *(f"parallel.{axis}" for axis in axes)]
    code, report, said = _simulate(tmp_path, *words, "launch.devices_per_node=8", "--ranks", "7")
    assert code == 0, said
    (last,) = report["ranks"]
    # [128, 128], over two tensor-parallel devices, and over the two of context parallelism that are replicas to the weights
    assert [64, 64] in [shape for name, shape in _shapes(last, "weight").items() if name.endswith("self_attention.linear_proj.weight")]
    assert any(each["ranks"] == [5, 7] for each in last["collectives"])


def test_experts_with_expert_parallel(tmp_path: Path) -> None:
    """A Qwen3-MoE of eight experts over two devices, which tensor parallelism does not split further. One layer has all of it."""
    words = [
        "+model=custom", "run.name=moe", "model.architecture=mcore", "parallel=semi_auto", "amp=O2", "launch.devices_per_node=8",
        "model.seq_length=128", "model.num_layers=1", "model.hidden_size=128", "model.num_heads=4", "model.num_kv_heads=2",
        "model.head_dim=32", "model.intermediate_size=352", "model.vocab_size=1024",
        "model.keys={seq_length:seq_length,num_layers:num_hidden_layers,hidden_size:hidden_size,num_heads:num_attention_heads,"
        "num_kv_heads:num_key_value_heads,head_dim:head_dim,intermediate_size:intermediate_size,vocab_size:vocab_size,"
        "compute_dtype:compute_dtype,param_dtype:params_dtype,rotary_dtype:rotary_dtype}",
        "model.extra={model_type:qwen3_moe,architectures:[Qwen3MoeForCausalLM],hidden_act:swiglu,add_bias_linear:false,qk_layernorm:true,"
        "position_embedding_type:rope,num_experts:8,num_experts_per_tok:2,moe_intermediate_size:64,routed_scaling_factor:1.0,"
        "moe_grouped_gemm:true,max_position_embeddings:128}",
        "parallel.model_parallel=2", "parallel.expert_parallel=2", "parallel.use_seq_parallel=true", "parallel.optimizer_parallel=false",
    ]  # fmt: skip
    code, report, said = _simulate(tmp_path, *words, "--ranks", "0")
    assert code == 0, said
    (first,) = report["ranks"]
    experts = [shape for name, shape in _shapes(first, "weight").items() if name.endswith("experts.weight1")]
    assert experts == [[4 * 128, 2 * 64]]  # of eight experts, [8 * 128, 2 * 64]
    assert any(each["operator"].lower().startswith("alltoall") for each in first["collectives"]), first["collectives"]


def test_the_step_that_leaves_an_update_out_by_its_loss(tmp_path: Path) -> None:
    """worker/loss_gate.py over mindformers' own step, which only Ascend has: all ranks sum up the loss and rank 0's limit."""
    words = ["+model=llama2_tiny", "model.num_layers=1", "parallel=data", "amp=O2", "dataset.batch_size=1", "launch.workers=2"]
    code, report, said = _simulate(tmp_path, *words, "device=ascend_910b", "watch.loss_spike=skip", "--ranks", "0")
    assert code == 0, said
    (first,) = report["ranks"]
    assert {each["name"] for each in first["holdings"]["held"]} > {"loss_gate_limit", "loss_gate_threshold"}
    assert [each["count"] for each in first["collectives"] if each["shape"] == "(1)"] == [2]


def test_what_mindformers_refuses_is_told_as_a_fault_of_ours(tmp_path: Path) -> None:
    words = ["native.model.model_config.num_heads=6", "native.model.model_config.n_kv_heads=6"]
    code, report, said = _simulate(tmp_path, *MESH, *words, "--ranks", "0")
    assert code == 2, said
    assert report == {}
    assert "simulate.head_width" in said
    assert "mend:" in said
    assert "Traceback" not in said


def _size(shape: list[int]) -> int:
    size = 1
    for each in shape:
        size *= each
    return size
