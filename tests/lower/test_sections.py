"""The native configuration section by section: the issue's cluster run, the tiny ones, and what each knob writes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from mends import LARGE, TINY, quick
from mindrecipe.config.schema.training import SCHEDULES
from mindrecipe.errors import UserError
from mindrecipe.freeze import to_yaml
from mindrecipe.lower import Place, lower
from mindrecipe.lower.checkpoint import NEVER
from mindrecipe.lower.optimization import SCHEDULE_TYPES
from mindrecipe.lower.place import Resume

pytestmark = pytest.mark.usefixtures("here")
CLUSTER = (*LARGE, "launch.nodes=1", "launch.devices_per_node=8")


def native(*overrides: str) -> dict[str, Any]:
    return quick(*overrides).lower()


def test_the_cluster_run_of_the_issue() -> None:
    """train +model=llama2_7b parallel=semi_auto amp=O2 launch.nodes=1 launch.devices_per_node=8, all sections."""
    found = native(*CLUSTER)
    assert found["run_mode"] == "train" and found["use_legacy"] is True and found["use_parallel"] is True and found["seed"] == 42
    assert found["trainer"] == {"type": "CausalLanguageModelingTrainer", "model_name": "llama2_7b"}
    assert found["runner_config"] == {"epochs": 1, "batch_size": 1, "sink_mode": True, "sink_size": 1, "gradient_accumulation_steps": 1}
    assert found["context"] == {
        "mode": 0,
        "device_target": "Ascend",
        "max_call_depth": 10000,
        "memory_optimize_level": "O0",
        "max_device_memory": "57GB",
        "ascend_config": {"precision_mode": "must_keep_origin_dtype"},
    }
    assert found["parallel"] == {
        "parallel_mode": 1,
        "gradients_mean": False,
        "enable_alltoall": False,
        "full_batch": True,
        "search_mode": "sharding_propagation",
        "enable_parallel_optimizer": True,
        "strategy_ckpt_config": {"save_file": "./output/strategy/ckpt_strategy.ckpt", "only_trainable_params": False},
        "parallel_optimizer_config": {"gradient_accumulation_shard": False, "parallel_optimizer_threshold": 64},
    }
    mesh = found["parallel_config"]
    assert [mesh[axis] for axis in ("data_parallel", "model_parallel", "context_parallel", "expert_parallel", "pipeline_stage")] == [
        8,
        1,
        1,
        1,
        1,
    ]
    assert mesh["vocab_emb_dp"] is True and mesh["use_seq_parallel"] is False and mesh["micro_batch_num"] == 1
    assert found["recompute_config"]["recompute"] is False and found["recompute_config"]["select_recompute"] is False
    assert found["runner_wrapper"] == {"type": "MFTrainOneStepCell", "scale_sense": 1.0, "use_clip_grad": True, "max_grad_norm": 1.0}
    assert found["optimizer"] == {"type": "AdamW", "betas": [0.9, 0.95], "eps": 1e-8, "learning_rate": 3e-4, "weight_decay": 0.1}
    assert found["lr_schedule"]["type"] == "CosineWithWarmUpLR" and found["lr_schedule"]["learning_rate"] == 3e-4
    assert found["lr_schedule"]["total_steps"] == -1, "mindformers counts the data set that is not known yet"
    assert [callback["type"] for callback in found["callbacks"]] == ["MFLossMonitor", "CheckpointMonitor"]
    assert found["train_dataset"]["data_loader"] == {
        "type": "MindDataset",
        "dataset_files": ["./dataset/train.mindrecord"],
        "shuffle": True,
    }
    assert found["train_dataset"]["input_columns"] == ["input_ids"] and found["train_dataset"]["batch_size"] == 1
    assert found["train_dataset_task"] == {"type": "CausalLanguageModelDataset", "dataset_config": found["train_dataset"]}
    model = found["model"]["model_config"]
    assert found["model"]["arch"] == {"type": "LlamaForCausalLM"} and model["type"] == "LlamaConfig"
    assert (model["hidden_size"], model["num_layers"], model["num_heads"], model["n_kv_heads"]) == (4096, 32, 32, 32)
    assert (model["vocab_size"], model["intermediate_size"], model["seq_length"]) == (32000, 11008, 4096)
    assert (model["compute_dtype"], model["param_init_type"], model["layernorm_compute_type"]) == ("bfloat16", "float32", "float32")
    assert (model["softmax_compute_type"], model["rotary_dtype"]) == ("bfloat16", "bfloat16")
    assert model["use_flash_attention"] is True and model["fused_rms_norm"] is True and model["use_rope_slice"] is False
    assert model["use_past"] is False


def test_traps_of_the_cpu_are_set_for_it() -> None:
    """Sinking, rope slice, fused kernels, gradients_mean."""
    found = native(TINY)
    assert found["runner_config"]["sink_mode"] is False
    assert found["context"] == {"mode": 0, "device_target": "CPU", "max_call_depth": 10000, "memory_optimize_level": "O0"}
    model = found["model"]["model_config"]
    assert (model["use_rope_slice"], model["fused_rms_norm"], model["use_flash_attention"]) == (True, False, False)
    assert found["use_parallel"] is False and "parallel" not in found
    several = native(TINY, "parallel=data", "launch.workers=2")
    assert several["parallel"]["parallel_mode"] == 0 and several["parallel"]["gradients_mean"] is True
    assert several["parallel"]["full_batch"] is False and several["use_parallel"] is True


def test_mcore_has_keys_of_its_own() -> None:
    found = native("+model=qwen3_8b", "parallel=semi_auto", "amp=O2")
    model = found["model"]["model_config"]
    assert found["use_legacy"] is False and "arch" not in found["model"]
    assert (model["model_type"], model["architectures"]) == ("qwen3", ["Qwen3ForCausalLM"])
    assert (model["num_hidden_layers"], model["num_attention_heads"], model["num_key_value_heads"], model["head_dim"]) == (36, 32, 8, 128)
    assert (model["params_dtype"], model["layernorm_compute_dtype"], model["rotary_dtype"]) == ("float32", "float32", "float32")
    assert found["train_dataset"]["construct_args_key"] == ["input_ids", "labels", "loss_mask"]
    assert found["load_ckpt_format"] == "safetensors" and found["checkpoint"]["save_interleaved_steps"] == NEVER


def test_columns_and_strategy_go_together() -> None:
    """One sublist a column, its first number data_parallel."""
    for model, columns in (("llama2_7b", 1), ("qwen3_8b", 3)):
        found = native(f"+model={model}", "parallel=semi_auto", "parallel.full_batch=false", "parallel.model_parallel=2")
        assert found["parallel"]["full_batch"] is False
        assert found["parallel"]["dataset_strategy"] == [[4, 1]] * columns
        assert len(found["train_dataset"]["input_columns"]) == columns
    assert "dataset_strategy" not in native(*LARGE)["parallel"]


@pytest.mark.parametrize(
    "overrides, wrapper",
    [
        (("amp=O2",), {"type": "DynamicLossScaleUpdateCell", "loss_scale_value": 65536.0, "scale_factor": 2, "scale_window": 1000}),
        (("amp=O2", "amp.loss_scale=fixed", "amp.loss_scale_value=128"), {"type": "FixedLossScaleUpdateCell", "loss_scale_value": 128.0}),
        ((), 1.0),
    ],
)
def test_loss_scale(overrides: tuple[str, ...], wrapper: object) -> None:
    assert native(TINY, *overrides)["runner_wrapper"]["scale_sense"] == wrapper


def test_no_clipping() -> None:
    assert native(TINY, "optimizer.grad_clip=null")["runner_wrapper"] == {
        "type": "MFTrainOneStepCell",
        "scale_sense": 1.0,
        "use_clip_grad": False,
    }


@pytest.mark.parametrize(
    "overrides, layers, patterns",
    [
        ((), False, False),
        (("recompute=full",), True, False),
        (("recompute=per_stage", "recompute.layers=[3]"), [3], False),
        (("recompute=selective",), False, [r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu"]),
        (("recompute=selective", r"recompute.patterns={a\.b: [2]}"), False, {r"a\.b": [2]}),
    ],
)
def test_recompute(overrides: tuple[str, ...], layers: object, patterns: object) -> None:
    found = native(TINY, *overrides)["recompute_config"]
    assert (found["recompute"], found["select_recompute"]) == (layers, patterns)


def test_every_policy_writes_something() -> None:
    for policy in ("full", "attention", "selective", "per_stage"):
        found = native(TINY, f"recompute={policy}", *(["recompute.layers=[1]"] if policy == "per_stage" else []))["recompute_config"]
        assert found["recompute"] or found["select_recompute"]


def test_schedules_have_types() -> None:
    assert set(SCHEDULE_TYPES) == set(SCHEDULES)


@pytest.mark.parametrize("schedule", ["constant_cooldown", "cosine_annealing", "cosine_annealing_restarts"])
def test_schedules_that_can_not_be_written_without_their_length(schedule: str) -> None:
    with pytest.raises(UserError) as told:
        native(*LARGE, f"schedule={schedule}")
    assert told.value.mend == "schedule.total_steps=1000"
    assert native(*LARGE, f"schedule={schedule}", "schedule.total_steps=1000")["lr_schedule"]


def test_schedules_whose_ratios_mindformers_counts() -> None:
    found = native(*LARGE, "schedule=wsd", "schedule.warmup_ratio=0.1", "schedule.decay_ratio=0.25")["lr_schedule"]
    assert found == {
        "type": "WarmUpStableDecayLR",
        "learning_rate": 3e-4,
        "warmup_lr_init": 0.0,
        "total_steps": -1,
        "warmup_ratio": 0.1,
        "lr_end": 0.0,
        "decay_start_ratio": 0.75,
    }
    with pytest.raises(UserError):
        native(*LARGE, "schedule=wsd", "schedule.warmup_ratio=0.1", "schedule.decay_steps=7")


@pytest.mark.parametrize(
    "overrides, monitor",
    [
        ((), {"save_checkpoint_steps": NEVER, "keep_checkpoint_max": 5}),
        (("checkpoint=steps", "checkpoint.save_steps=7", "checkpoint.keep=2"), {"save_checkpoint_steps": 7, "keep_checkpoint_max": 2}),
        (("checkpoint=minutes", "checkpoint.save_minutes=0.5"), {"save_checkpoint_steps": None, "save_checkpoint_seconds": 30}),
    ],
)
def test_checkpoints(overrides: tuple[str, ...], monitor: dict[str, Any]) -> None:
    (found,) = [callback for callback in native(TINY, *overrides)["callbacks"] if callback["type"] == "CheckpointMonitor"]
    assert monitor.items() <= found.items()
    assert found["checkpoint_format"] == "ckpt" and found["prefix"] == "llama2_tiny"


def test_no_checkpoint_no_callback() -> None:
    for model in (TINY, "+model=qwen3_tiny"):
        assert "CheckpointMonitor" not in str(native(model, "checkpoint=off")["callbacks"])


def test_the_run_ends_where_it_says() -> None:
    """A callback, for runner_config.stop_step is dead code; a resumed run stops after what is left."""
    derived = quick(TINY, "schedule.total_steps=300").derived
    place = Place(output_dir="/run", train_files=("/d/x.mindrecord",), resume=Resume(folder="/c", file_name="x-1_20.ckpt", step=120))
    for resume, left in ((None, 300), (place.resume, 180)):
        found = lower(derived, Place(output_dir="/run", train_files=("/d/x.mindrecord",), resume=resume))
        assert found["callbacks"][0] == {"type": "TrainCallBack", "stop_step": left}
    assert found["load_checkpoint"] == "/c" and found["resume_training"] == "x-1_20.ckpt"
    mcore = lower(
        quick("+model=qwen3_tiny").derived, Place(output_dir="/run", train_files=(), resume=Resume(folder="/c", file_name=None, step=3))
    )
    assert mcore["checkpoint"]["load_path"] == "/c" and mcore["checkpoint"]["no_load_optim"] is False
    weights = lower(derived, Place(output_dir="/run", train_files=(), load="/w"))
    assert weights["load_checkpoint"] == "/w" and weights["resume_training"] is False


def test_pipelines() -> None:
    found = native("+recipe=qwen3_32b_pretrain_16x64g")
    assert found["model"]["model_config"]["offset"] == [-1, -1, 1, 1] and found["parallel_config"]["pipeline_stage"] == 4
    two = native(
        *LARGE,
        "parallel.pipeline_stage=2",
        "parallel.micro_batch_num=4",
        "parallel.pipeline_interleave=2",
        "parallel.pipeline_scheduler=seqpipe",
    )
    assert two["parallel"]["pipeline_config"] == {"pipeline_interleave": True, "pipeline_scheduler": "seqpipe"}
    assert two["model"]["model_config"]["pp_interleave_num"] == 2
    for scheduler, interleaved in (("1f1b", False), ("gpipe", True)):
        words = ("parallel.pipeline_stage=2", "parallel.micro_batch_num=4", f"parallel.pipeline_scheduler={scheduler}")
        assert native(*LARGE, *words)["parallel"]["pipeline_config"]["pipeline_interleave"] is interleaved
    assert "pipeline_config" not in native(*LARGE)["parallel"]


def test_profile_keys() -> None:
    assert "profile" not in native(TINY)
    found = native(TINY, "profile=steps", "profile.start=7", "profile.stop=9")
    assert found["profile"] is True and (found["profile_start_step"], found["profile_stop_step"]) == (7, 9)
    assert (found["profiler_level"], found["profile_memory"], "profile_rank_ids" in found) == (0, True, False)
    found = native(TINY, "profile=steps", "profile.ranks=[1]", "profile.level=2", "profile.memory=false")
    assert (found["profiler_level"], found["profile_memory"], found["profile_rank_ids"]) == (2, False, [1])


def test_the_profilers_window_is_of_the_run_and_closes_before_its_end() -> None:
    """mindformers counts the steps of one process, and never analyses a window that is open when training ends."""
    asked = (TINY, "schedule.total_steps=30", "profile=steps", "profile.start=7", "profile.stop=40")
    assert (native(*asked)["profile_start_step"], native(*asked)["profile_stop_step"]) == (7, 30)
    derived = quick(*asked).derived
    for done, window in ((5, (2, 25)), (6, (1, 24)), (20, (1, 10)), (30, (None, None))):
        place = Place(output_dir="/run", train_files=("/d/x.mindrecord",), resume=Resume(folder="/c", file_name="x.ckpt", step=done))
        found = lower(derived, place)
        assert (found.get("profile_start_step"), found.get("profile_stop_step")) == window and ("profile" in found) == (done < 30)


def test_norms_of_layers_are_asked_of_the_step_cell() -> None:
    assert "local_norm" not in native(TINY)["runner_wrapper"] and native(TINY, "monitor=full")["runner_wrapper"]["local_norm"] is True


def test_native_has_the_last_word() -> None:
    found = native(TINY, "native.runner_config.sink_size=2", "native.a.b=[1]", "native.context={mode: 1}", "model.extra.x=1")
    assert found["runner_config"] == native(TINY)["runner_config"] | {"sink_size": 2}
    assert found["a"] == {"b": [1]} and found["context"]["mode"] == 1 and found["context"]["device_target"] == "CPU"
    assert found["model"]["model_config"]["x"] == 1


def test_pure_and_equal_after_a_round_trip() -> None:
    for overrides in ((TINY,), CLUSTER, ("+recipe=llama2_70b_pretrain_64x64g",), ("+model=qwen3_tiny", "amp=O2")):
        run = quick(*overrides)
        before = copy.deepcopy(run)
        once = run.lower()
        once["model"]["model_config"]["num_layers"] = 99
        once["train_dataset"]["input_columns"].append("x")
        assert run == before and run.lower() == before.lower()
        assert yaml.safe_load(to_yaml(run.lower())) == run.lower()
        assert to_yaml(run.lower()) == to_yaml(before.lower())


def test_only_keys_that_mindformers_forwards_in_context() -> None:
    """Everything else is dropped with one warning in a log."""
    forwarded = {"device_id", "device_target", "max_device_memory", "mempool_block_size", "memory_optimize_level", "save_graphs", "mode"}
    forwarded |= {"save_graphs_path", "max_call_depth", "ascend_config", "jit_config", "dataset_broadcast_opt_level"}
    for overrides in ((TINY,), (*CLUSTER, "memory.mempool_block_size=1GB", "device.jit_level=O1", "device.parallel_speed_up=x.json")):
        assert set(native(*overrides)["context"]) <= forwarded
