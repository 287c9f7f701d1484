"""No knob pretends to act: whichever is changed, something of the run changes, or a finding says that nothing does."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import mindrecipe
from mends import LARGE, TINY, assert_mends, findings, quick, rules_of, run_of
from mindrecipe.config.keys import Knob, knobs
from mindrecipe.execute import plan_of
from mindrecipe.freeze import derived_facts
from mindrecipe.lower import Place
from mindrecipe.prepare import data_spec
from mindrecipe.rules.unread import UNREAD
from mindrecipe.run import Run

pytestmark = pytest.mark.usefixtures("here")
CPU = (TINY, "device=cpu")
SEMI_AUTO = ("+model=llama2_7b", "parallel=semi_auto", "parallel.optimizer_parallel=false", "device=ascend_910b")
STAND_ALONE = ("+model=llama2_7b", "device=ascend_910b")
QWEN = ("+model=qwen3_tiny", "device=cpu")
MINDRECORD = ("dataset=mindrecord", "dataset.files=[a.mindrecord]")
YOURS = ("run.imports=[my_package]", "schedule.type=my_schedule")

#: a value that is legal and not the default, where it can't be told from the knob's type
VALUES = {
    "run.dir": "somewhere",
    "model.family": "qwen3",
    "model.num_kv_heads": "2",
    "model.head_dim": "16",
    "model.intermediate_size": "500",
    "model.ffn_dim_multiplier": "1.5",
    "model.multiple_of": "48",
    "model.max_position_embeddings": "8192",
    "model.use_flash_attention": "true",
    "model.fused_rms_norm": "true",
    "model.offset": "[1]",
    "model.keys": "{seq_length: n_positions}",
    "model.extra": "{a: 1}",
    "dataset.source": "text",
    "dataset.heldout_fraction": "0.2",
    "dataset.num_parallel_workers": "1",
    "dataset.tokenizer": "bytes",
    "dataset.tokenizer_vocab_size": "300",
    "parallel.vocab_emb_dp": "true",
    "recompute.layers": "[1]",
    "recompute.patterns": "[a]",
    "recompute.select_comm_recompute": "true",
    "memory.max_device_memory": "8GB",
    "memory.headroom": "0.2",
    "memory.mempool_block_size": "2GB",
    "optimizer.type": "Came",
    "optimizer.betas": "[0.9,0.98]",
    "optimizer.eps": "1e-6",
    "optimizer.grad_clip": "0.5",
    "schedule.type": "linear",
    "profile.ranks": "[1]",
    "schedule.warmup_ratio": "0.2",
    "schedule.warmup_steps": "3",
    "schedule.warmup_lr_init": "1e-6",
    "schedule.lr_end": "1e-6",
    "schedule.total_steps": "77",
    "schedule.decay_ratio": "0.2",
    "checkpoint.format": "safetensors",
    "checkpoint.style": "section",
    "checkpoint.save_minutes": "3",
    "checkpoint.save_steps": "30",
    "checkpoint.resume": "must",
    "device.name": "ascend_910a",
    "device.memory_gb": "31",
    "device.peak_tflops": "100",
    "launch.mode": "msrun",
    "launch.master_addr": "10.0.0.1",
    "launch.master_port": "2000",
    "launch.node_rank": "1",
    "launch.hccl_connect_timeout": "900",
    "native": "{context: {save_graphs: true}}",
    "omit": "{context: {max_call_depth: '*'}}",
}
#: the value for a run on NPUs, where that of the CPU is what follows anyway
ON_NPU = {
    "parallel.vocab_emb_dp": "false",
    "model.use_flash_attention": "false",
    "model.fused_rms_norm": "false",
    "launch.mode": "local",
    "model.intermediate_size": "12000",
}

#: knobs that act where no native YAML, launch plan or fact of the run shows it: the file, and how it reads them
ELSEWHERE = {
    "run.dir": ("freeze.py", "given.dir"),
    "run.root": ("freeze.py", "given.root"),
    "run.imports": ("worker/rank.py", '["imports"]'),
    "run.imported_from": ("cli/export.py", "run.imported_from"),
    "run.rehearse": ("run.py", "run.rehearse"),
    "run.tags": ("lock.py", "run.tags"),
    "rules.strict": ("rules/registry.py", "rules.strict"),
    "checkpoint.resume": ("resume.py", ".resume"),
    "checkpoint.strict": ("fit.py", "checkpoint.strict"),
    "launch.freeze_only": ("execute.py", "launch.freeze_only"),
    "watch.loss_spike": ("worker/watch.py", '"loss_spike"'),
    "watch.loss_spike_factor": ("worker/watch.py", '["loss_spike_factor"]'),
    "watch.grad_spike": ("worker/watch.py", '"grad_spike"'),
    "watch.grad_spike_factor": ("worker/watch.py", '["grad_spike_factor"]'),
    "watch.window": ("worker/watch.py", '["window"]'),
    "watch.overflow_steps": ("worker/training.py", '["overflow_steps"]'),
    "watch.slow_rank": ("worker/watch.py", '"slow_rank"'),
    "watch.slow_rank_share": ("worker/watch.py", '["slow_rank_share"]'),
    "evaluate.at_end": ("worker/rank.py", '["at_end"]'),
    "evaluate.max_batches": ("worker/heldout.py", '["max_batches"]'),
    "monitor.console": ("execute.py", "monitor.console"),
    "monitor.log_steps": ("execute.py", "monitor.log_steps"),
    "monitor.memory": ("worker/training.py", '["memory"]'),
    "monitor.rank_steps": ("worker/rank.py", '["rank_steps"]'),
    "monitor.tensorboard": ("worker/board.py", '["tensorboard"]'),
    "monitor.usage_interval": ("worker/rank.py", '["usage_interval"]'),
    "monitor.update_ratio_steps": ("worker/training.py", '["update_ratio_steps"]'),
}


def _other(knob: Knob) -> str:
    if knob.doc.choices:
        return next(choice for choice in knob.doc.choices if choice != knob.default)
    kind, default = str(knob.type), knob.default
    if isinstance(default, bool):
        return str(not default).lower()
    if isinstance(default, int | float):
        return str(default + 1)
    if "int" in kind or "float" in kind:
        return "2"
    return "[a]" if "list" in kind else "{A: 1}" if "dict" in kind else "other"


def _seen(run: Run) -> str:
    """Everything that the rest of the run is made of, and everything that is said about it."""
    place = Place(output_dir="/run", train_files=("x.mindrecord",), load=run.config.checkpoint.load)
    plan = dataclasses.replace(plan_of(run, Path("/run")), resume_hint=None)
    said = [(finding.rule, finding.what) for finding in run.check()]
    parts = [run.lower(place), dataclasses.asdict(plan), derived_facts(run.derived, None), dataclasses.asdict(data_spec(run.derived)), said]
    return json.dumps(parts, default=str)


@pytest.mark.parametrize("key", knobs())
@pytest.mark.parametrize("base", [CPU, SEMI_AUTO], ids=["cpu", "semi_auto"])
def test_every_knob_acts_or_says_that_it_does_not(base: tuple[str, ...], key: str) -> None:
    value = (ON_NPU if base is SEMI_AUTO else {}).get(key) or VALUES.get(key) or _other(knobs()[key])
    changed = quick(*base, f"{key}={value}")
    section, _, name = key.partition(".")
    written = getattr(getattr(changed.config, section), name) if name else getattr(changed.config, section)
    assert written != knobs()[key].default
    if key in ELSEWHERE:
        file, reads = ELSEWHERE[key]
        assert reads in (Path(mindrecipe.__file__).parent / file).read_text(encoding="utf-8")
    else:
        assert _seen(changed) != _seen(quick(*base))


#: knob -> runs in which nothing reads it, and one in which it is read
CASES: dict[str, tuple[list[tuple[str, ...]], tuple[str, ...]]] = {
    "parallel.context_parallel_algo=ulysses_cp": ([CPU, SEMI_AUTO], (*LARGE, "parallel.context_parallel=2")),
    "parallel.ulysses_degree_in_cp=2": (
        [CPU, SEMI_AUTO],
        (*LARGE, "parallel.context_parallel=2", "parallel.context_parallel_algo=hybrid_cp"),
    ),
    "parallel.search_mode=recursive_programming": ([CPU, SEMI_AUTO], ("+model=llama2_7b", "parallel=auto")),
    "parallel.global_batch_size=64": ([CPU, SEMI_AUTO], ("+model=llama2_7b", "parallel=planned", "amp=O2")),
    "parallel.full_batch=false": ([CPU, (*CPU, "parallel=data", "launch.workers=2")], SEMI_AUTO),
    "parallel.enable_alltoall=true": ([CPU], SEMI_AUTO),
    "parallel.gradient_aggregation_group=8": ([CPU], (*CPU, "parallel=data", "launch.workers=2")),
    "parallel.optimizer_parallel=true": ([STAND_ALONE], ("+model=llama2_7b", "parallel=data", "device=ascend_910b")),
    "parallel.vocab_emb_dp=false": ([CPU], SEMI_AUTO),
    "parallel.expert_parallel=2": ([SEMI_AUTO], ("model=custom", "parallel=semi_auto", "run.name=x", "model.architecture=mcore")),
    "model.architecture=mcore": ([CPU, QWEN], ("model=custom", "parallel=semi_auto", "run.name=x")),
    "model.multiple_of=64": ([QWEN, (*CPU, "model.intermediate_size=352")], CPU),
    "model.ffn_dim_multiplier=1.3": ([QWEN, (*CPU, "model.intermediate_size=352")], CPU),
    "model.fused_rms_norm=false": ([QWEN], SEMI_AUTO),
    "dataset.heldout_fraction=0.2": ([(*CPU, *MINDRECORD), (*CPU, "dataset=text", "dataset.files=[a.txt]", "dataset.heldout_files=[b.txt]")], CPU),
    "dataset.text_field=content": ([CPU, (*CPU, *MINDRECORD)], (*CPU, "dataset=text", "dataset.files=[a.jsonl]")),
    "dataset.tokenizer=bytes": ([(*CPU, *MINDRECORD)], CPU),
    "dataset.tokenizer_vocab_size=300": ([(*CPU, *MINDRECORD), (*CPU, "dataset.tokenizer=bytes")], CPU),
    "amp.dtype=bfloat16": ([CPU, SEMI_AUTO, ("+model=qwen3_8b", "parallel=semi_auto")], LARGE),
    "amp.loss_scale_value=1024": ([CPU, LARGE], (*CPU, "amp=O2")),
    "amp.loss_scale_factor=4": ([CPU, (*LARGE, "amp.loss_scale=fixed")], (*CPU, "amp=O2")),
    "amp.loss_scale_window=10": ([CPU, (*LARGE, "amp.loss_scale=fixed")], (*CPU, "amp=O2")),
    "recompute.mp_comm_recompute=false": ([CPU, SEMI_AUTO], (*LARGE, "recompute=full")),
    "recompute.parallel_optimizer_comm_recompute=true": ([CPU, SEMI_AUTO], (*LARGE, "recompute=full")),
    "recompute.recompute_slice_activation=true": ([CPU, SEMI_AUTO], (*LARGE, "recompute=full")),
    "memory.max_device_memory=8GB": ([CPU], LARGE),
    "memory.headroom=0.2": ([CPU, (*LARGE, "memory.max_device_memory=50GB")], LARGE),
    "memory.mempool_block_size=2GB": ([CPU], LARGE),
    "device.memory_gb=32": ([CPU], LARGE),
    "device.precision_mode=force_fp32": ([CPU], LARGE),
    "device.parallel_speed_up=here.json": ([CPU], LARGE),
    "launch.simulate_ranks=all": ([CPU, SEMI_AUTO], (*LARGE, "launch=simulate")),
    "launch.simulate_at_once=2": ([CPU, SEMI_AUTO], (*LARGE, "launch=simulate")),
    "launch.simulate_again=true": ([CPU, SEMI_AUTO], (*LARGE, "launch=simulate")),
    "launch.dry_run=true": ([(*LARGE, "launch=simulate")], SEMI_AUTO),
    "launch.freeze_only=true": ([(*LARGE, "launch=simulate"), (*CPU, "launch.dry_run=true")], SEMI_AUTO),
    "schedule.epochs=2": ([CPU], SEMI_AUTO),
    "schedule.warmup_ratio=0.2": ([(*CPU, "schedule.warmup_steps=5")], CPU),
    "schedule.warmup_lr_init=1e-6": ([SEMI_AUTO, (*CPU, "schedule=cosine_annealing")], CPU),
    "schedule.lr_end=1e-6": ([(*CPU, *YOURS)], CPU),
    "schedule.num_cycles=2": ([(*CPU, *YOURS)], CPU),
    "schedule.power=2": ([(*CPU, *YOURS)], (*CPU, "schedule=polynomial")),
    "schedule.decay_steps=5": ([(*CPU, *YOURS)], (*CPU, "schedule=wsd")),
    "schedule.decay_ratio=0.2": ([CPU, (*CPU, *YOURS)], (*CPU, "schedule=wsd")),
    "checkpoint.keep=2": ([(*CPU, "checkpoint=off")], CPU),
    "checkpoint.async_save=true": ([(*CPU, "checkpoint=off")], CPU),
    "evaluate.max_batches=2": ([(*CPU, "evaluate=off")], CPU),
    "launch.mode=msrun": ([CPU], (*CPU, "parallel=data", "launch.workers=2")),
    "launch.hosts=[a,b]": ([CPU], (*CPU, "parallel=data", "launch=ssh", "launch.devices_per_node=1")),
    "launch.submit=false": ([CPU], (*CPU, "launch=slurm")),
    "launch.sbatch_args=[x]": ([CPU], (*CPU, "launch=slurm")),
    "launch.msrun_args=[--x]": ([CPU], (*CPU, "parallel=data", "launch.workers=2")),
    "launch.bind_core=true": ([CPU], (*CPU, "parallel=data", "launch.workers=2")),
    "launch.rank_table=t.json": ([(*CPU, "parallel=data", "launch.workers=2")], SEMI_AUTO),
    "launch.hccl_connect_timeout=900": ([(*CPU, "parallel=data", "launch.workers=2")], SEMI_AUTO),
    "launch.hccl_exec_timeout=900": ([(*CPU, "parallel=data", "launch.workers=2"), (*LARGE, "launch=simulate")], SEMI_AUTO),
    "launch.hccl_buffsize=300": ([(*CPU, "parallel=data", "launch.workers=2")], SEMI_AUTO),
    "launch.hccl_deterministic=strict": ([(*CPU, "parallel=data", "launch.workers=2")], SEMI_AUTO),
    "launch.restart_window=60": ([CPU], (*CPU, "launch.max_restarts=2")),
    "launch.restart_backoff=1": ([CPU], (*CPU, "launch.max_restarts=2")),
    "launch.stall_min=60": ([(*CPU, "launch.stall_timeout=null")], CPU),
    "watch.loss_spike_factor=3": ([(*CPU, "watch.loss_spike=off")], CPU),
    "watch.grad_spike_factor=3": ([(*CPU, "watch.grad_spike=off")], CPU),
    "watch.grad_norm_limit=3": ([CPU], (*CPU, "watch.grad_spike=skip")),
    "watch.window=9": ([(*CPU, "watch.loss_spike=off", "watch.grad_spike=off")], CPU),
    "watch.slow_rank_share=2": ([(*CPU, "watch.slow_rank=off")], CPU),
    "watch.disk_gb=9": ([(*CPU, "watch.disk=off")], CPU),
    "profile.start=2": ([CPU], (*CPU, "profile=steps")),
    "profile.stop=20": ([CPU], (*CPU, "profile=steps")),
    "profile.ranks=[0]": ([CPU], (*CPU, "profile=steps")),
    "profile.level=1": ([CPU], (*CPU, "profile=steps")),
    "profile.memory=false": ([CPU], (*CPU, "profile=steps")),
}  # fmt: skip


@pytest.mark.parametrize("override", CASES)
def test_it_is_said_where_nothing_reads_it_and_only_there(override: str) -> None:
    key, value = override.split("=")
    unread, read = CASES[override]
    for base in unread:
        (finding,) = [found for found in findings(*base, override, make=quick) if found.rule == "config.unread"]
        assert finding.keys == (key,) and finding.severity == UNREAD[key].severity and finding.where == f"command line: {override}"
        assert finding.what.startswith(f"{key}=") and value.lstrip("0").lower()[:2] in finding.what.lower()
        assert_mends(*base, override, make=quick, severity=finding.severity)
    assert "config.unread" not in rules_of(*read, override)


def test_every_line_of_the_table_is_tested() -> None:
    assert {override.partition("=")[0] for override in CASES} == set(UNREAD) and set(UNREAD) <= set(knobs())


def test_a_default_that_is_written_and_the_dimensions_of_a_model_say_nothing() -> None:
    assert rules_of(*CPU, "amp.dtype=auto", "parallel.full_batch=true", "model.multiple_of=32", "schedule.epochs=1") == {}
    assert rules_of(*CPU, "model.intermediate_size=512") == {}  # multiple_of=32 is in conf/model/llama2_tiny.yaml
    assert "config.unread" not in rules_of("+model=llama2_70b", "parallel=semi_auto", "amp=O2", "model.intermediate_size=28672")


def test_what_was_imported_is_warned_of_only() -> None:
    assert rules_of(*CPU, "run.imported_from=a.yaml", "parallel.enable_alltoall=true") == {"config.unread": "warning"}


def test_half_by_hand_reads_the_half_type() -> None:
    assert rules_of("+model=llama2_7b", "parallel=semi_auto", "amp.dtype=bfloat16", "amp.compute_dtype=bfloat16") == {}


def test_half_on_the_cpu_through_hydra() -> None:
    """`train +model=llama2_tiny amp.dtype=bfloat16` trained in fp32, and said nothing."""
    (finding,) = assert_mends(TINY, "amp.dtype=bfloat16", make=run_of)
    assert finding.rule == "config.unread" and "amp=O1, O2 or O3" in finding.what


def test_a_precision_mode_that_is_none() -> None:
    (fault,) = findings(*LARGE, "device.precision_mode=force_fp8", make=quick)
    assert "must_keep_origin_dtype" in f"{fault.what} {fault.mend}"
    assert rules_of(*LARGE, "device.precision_mode=allow_mix_precision_bf16") == {}


def test_a_mesh_that_is_refused_is_all_that_is_said() -> None:
    """What the axes do not divide is no matter where their product is wrong."""
    assert rules_of(*LARGE, "model.num_layers=30", "model.num_kv_heads=2", "model.vocab_size=50257", "parallel.data_parallel=3",
                    "parallel.model_parallel=4", "parallel.pipeline_stage=4", "parallel.micro_batch_num=4") == {"mesh.product": "error"}  # fmt: skip


def test_names_of_files() -> None:
    """mindformers finds the epoch, the step and the rank of names with spaces, '-' and accents (run), not of these."""
    for name in ("my run", "tiny-2", "naïve", "llama-2-7b_8"):
        assert rules_of(*CPU, f"run.name='{name}'") == {}
    for name in ("tiny-1_2.ckpt", "a-model-0-1", "my_rank"):
        assert rules_of(*CPU, f"run.name='{name}'") == {"checkpoint.name": "error"}
