"""What mindformers' own checks would refuse of the lowered configuration, for keys that no knob of ours says.

Each function is one of those checks, on the native configuration as plain data: mindformers carries them out after every rank
has started and the model is built (tools/check_rules.py, core/context/validators.py, trainer/base_trainer.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.errors import UserError
from mindrecipe.lower import Place, lower
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule

#: native path, what is wrong with it, the mend
Fault = tuple[str, str, str | None]
Native = Mapping[str, Any]
_DEPTH = 10  # tools/check_rules.py YAML_MAX_NESTING_DEPTH


@rule(
    "native.refused",
    "error",
    "mindformers checks it after every rank has started and the model is built",
    outcome="stops",
    source="mindformers tools/check_rules.py, core/context/validators.py, trainer/base_trainer.py, trainer/trainer.py",
    reads="*",
    fails=[
        f"{LARGE} native.swap_config.swap=1",
        f"{LARGE} native.swap_config.swap=true native.swap_config.default_prefetch=0",
        f"{LARGE} native.swap_config.swap=true native.swap_config.layer_swap=true",
        f"{LARGE} native.swap_config.swap=true 'native.swap_config.layer_swap=[{{layers: [x], backward_prefetch: 1}}]'",
        f"{LARGE} native.swap_config.swap=true 'native.swap_config.op_swap=[a]'",
        f"{LARGE} model.extra.fine_grain_interleave=2",
        f"{LARGE} 'native.recompute_config.recompute=[1,2]'",
        f"{TINY} native.context.mode=2",
        f"{TINY} native.train_precision_sync=1",
        f"{LARGE} native.parallel.pipeline_config.pipeline_scheduler=seqvpp",
        f"{TINY} native.lr_schedule.warmup_epochs=1 native.lr_schedule.warmup_ratio=null",
        f"{TINY} native.context.dataset_broadcast_opt_level=3",
        f"{TINY} native.auto_trans_ckpt=true",
        f"{TINY} native.a.b.c.d.e.f.g.h.i.j.k=1",
    ],
    passes=[
        f"{LARGE} native.swap_config.swap=true",
        f"{LARGE} native.swap_config.swap=true 'native.swap_config.layer_swap=[{{layers: [1], backward_prefetch: 1}}]'",
        f"{LARGE} model.extra.fine_grain_interleave=2 parallel.model_parallel=2 parallel.use_seq_parallel=true",
        f"{LARGE} 'native.recompute_config.recompute=[1]'",
        f"{TINY} native.context.mode=0",
    ],
)
def refused(d: Derived) -> Iterator[Problem]:
    """The lowered configuration holds a value that mindformers' own checks refuse."""
    if not d.config.native and not d.config.model.extra:
        return  # what our knobs are lowered to has rules in their terms
    try:
        native = lower(d, Place(output_dir="./output", train_files=("train.mindrecord",)))
    except UserError:
        return  # it says itself what it lacks
    for check in CHECKS:
        for path, what, mend in check(native, d):
            extra = path.removeprefix("model.model_config.")
            key = f"model.extra.{extra}" if extra in d.config.model.extra else f"native.{path}"
            better = (mend or "").replace("native.model.model_config.", "model.extra.") if extra in d.config.model.extra else mend
            yield Problem(f"{key} {what}", (key, key.rpartition(".")[0]), better)


def swap(native: Native, _: Derived) -> Iterator[Fault]:
    """tools/check_rules.py _check_swap and _rule_swap_no_pp."""
    given = _section(native, "swap_config")
    on = given.get("swap", False)
    if not isinstance(on, bool):
        yield "swap_config.swap", f"must be true or false, not {on!r}", "native.swap_config.swap=true"
    if on is not True:
        return
    prefetch = given.get("default_prefetch", 1)
    if not _whole(prefetch) or prefetch < 1:
        yield "swap_config.default_prefetch", f"must be a number from 1, not {prefetch!r}", "native.swap_config.default_prefetch=1"
    operators = given.get("op_swap")
    if operators and not isinstance(operators, Mapping):
        yield "swap_config.op_swap", "must be a mapping operator -> list of layers and prefetch", "native.swap_config.op_swap=null"
        operators = None
    lists = {"layer_swap": given.get("layer_swap"), **{f"op_swap.{name}": value for name, value in (operators or {}).items()}}
    for name, value in lists.items():
        fault = _fault_of_swap(value)
        if fault:
            yield f"swap_config.{name}", fault, f"native.swap_config.{name.partition('.')[0]}=null"


def _fault_of_swap(value: Any) -> str | None:
    if not value:
        return None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        return "must be a list of mappings with `layers` and `backward_prefetch`"
    for item in value:
        layers, prefetch = item.get("layers"), item.get("backward_prefetch")
        if not _whole(prefetch) or prefetch < 1:
            return f"must have a backward_prefetch from 1, not {prefetch!r}"
        if layers is not True and not (isinstance(layers, list) and all(map(_whole, layers))):
            return f"must have layers that are true or numbers, not {layers!r}"
    return None


def recompute(native: Native, _: Derived) -> Iterator[Fault]:
    """tools/check_rules.py _check_recompute: with swap layers of the model, without it one number a stage."""
    given, stages = _section(native, "recompute_config"), _section(native, "parallel_config").get("pipeline_stage", 1)
    if _section(native, "swap_config").get("swap", False):
        for key in ("recompute", "select_recompute", "select_comm_recompute"):
            if isinstance(given.get(key), list) and not all(map(_whole, given[key])):
                yield f"recompute_config.{key}", "must be numbers of layers where swap is on", f"native.recompute_config.{key}=true"
        return
    for key in ("recompute", "select_recompute", "select_comm_recompute"):
        value = given.get(key)
        if isinstance(value, list) and _whole(stages) and len(value) > stages and all(map(_whole, value)):
            yield f"recompute_config.{key}", f"has {len(value)} numbers for pipeline_stage={stages}", f"native.recompute_config.{key}=true"


def interleave(native: Native, _: Derived) -> Iterator[Fault]:
    """tools/check_rules.py _check_config_campacity."""
    mesh, model = _section(native, "parallel_config"), _section(_section(native, "model"), "model_config")
    pieces = model.get("fine_grain_interleave") or 1
    if _whole(pieces) and pieces > 1 and not mesh.get("use_seq_parallel", False) and mesh.get("context_parallel", 1) == 1:
        key = "model.model_config.fine_grain_interleave"
        yield key, f"= {pieces} needs parallel.use_seq_parallel or context_parallel", f"native.{key}=1"


def context(native: Native, _: Derived) -> Iterator[Fault]:
    """core/context/validators.py; mindformers tools/utils.py MODE."""
    given = _section(native, "context")
    if given.get("mode", 0) not in (0, 1, "GRAPH_MODE", "PYNATIVE_MODE"):
        yield "context.mode", f"= {given['mode']} is no mode: 0 (graph) or 1 (pynative)", "native.context.mode=0"
    for key in ("train_precision_sync", "infer_precision_sync"):
        if not isinstance(native.get(key), bool | None):
            yield key, f"must be true or false, not {native[key]!r}", f"native.{key}=true"
    if given.get("dataset_broadcast_opt_level", 0) and not _section(native, "runner_config").get("sink_mode", True):
        key = "context.dataset_broadcast_opt_level"
        yield key, "needs sink_mode, which is off on CPU", f"native.{key}=0"


def pipeline(native: Native, d: Derived) -> Iterator[Fault]:
    """tools/check_rules.py _check_parallel."""
    given = _section(_section(native, "parallel"), "pipeline_config")
    split = _section(native, "parallel_config").get("seq_split_num", 1)
    ours = d.config.parallel.pipeline_scheduler == "seqvpp" and d.config.parallel.mode in SHARDED
    if given.get("pipeline_scheduler") == "seqvpp" and split == 1 and not ours:
        key = "parallel.pipeline_config.pipeline_scheduler"
        yield key, "= seqvpp needs seq_split_num above 1", f"native.{key}=seqpipe"


def warmup(native: Native, _: Derived) -> Iterator[Fault]:
    """trainer/base_trainer.py create_lr_scheduler."""
    given = _section(native, "lr_schedule")
    if given.get("warmup_epochs") and not given.get("warmup_ratio"):
        yield "lr_schedule.warmup_epochs", "needs warmup_ratio", "native.lr_schedule.warmup_epochs=null"


def transformed(native: Native, _: Derived) -> Iterator[Fault]:
    """trainer/trainer.py _using_checkpoint_name_or_path_if_needed; of one device: 'src_strategy and dst_strategy cannot both be None'."""
    if not native.get("auto_trans_ckpt", False):
        return
    if native.get("checkpoint"):
        yield "auto_trans_ckpt", "has no effect beside the section `checkpoint`", "native.auto_trans_ckpt=false"
    elif not (native.get("load_checkpoint") or native.get("pretrained_model_dir")):
        yield "auto_trans_ckpt", "needs a checkpoint to load", "native.auto_trans_ckpt=false"
    elif not native.get("use_parallel", False) and not native.get("src_strategy_path_or_dir"):
        yield "auto_trans_ckpt", "needs src_strategy_path_or_dir on one device", "native.auto_trans_ckpt=false"


def depth(native: Native, d: Derived) -> Iterator[Fault]:
    """tools/check_rules.py check_yaml_depth_before_loading."""
    for key, value in d.config.native.items():
        if _depth(value) + 1 > _DEPTH:
            where, below = key, value
            while isinstance(below, Mapping) and below:
                inner, below = next(iter(below.items()))
                where = f"{where}.{inner}"
            yield where, f"is below more than {_DEPTH} mappings, and mindformers reads no deeper", f"native.{key}=null"


def profile(native: Native, d: Derived) -> Iterator[Fault]:
    """trainer/trainer.py _build_profile_cb (run: exit code 0, no data)."""
    first, last = native.get("profile_start_step", 1), native.get("profile_stop_step", 10)
    if native.get("profile") is True and not d.config.profile.enabled and _whole(first) and _whole(last):
        if first > last:
            yield "profile_start_step", f"= {first} is after profile_stop_step={last}", f"native.profile_stop_step={first + 5}"
        elif d.total_steps and first > d.total_steps:
            yield "profile_start_step", f"= {first} is beyond total_steps={d.total_steps}", "native.profile_start_step=1"


CHECKS: tuple[Callable[[Native, Derived], Iterator[Fault]], ...] = (
    swap, recompute, interleave, context, pipeline, warmup, transformed, depth, profile,
)  # fmt: skip


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _depth(value: Any) -> int:
    if isinstance(value, list):
        return max(map(_depth, value), default=0)
    return 1 + max(map(_depth, value.values()), default=0) if isinstance(value, Mapping) else 0


def _section(tree: Any, key: str) -> Mapping[str, Any]:
    value = tree.get(key) if isinstance(tree, Mapping) else None
    return value if isinstance(value, Mapping) else {}
