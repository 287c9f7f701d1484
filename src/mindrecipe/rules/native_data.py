"""Rules of what native.* says about how data are read, and of the run mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindrecipe.config.keys import nearest_word
from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.native import section
from mindrecipe.rules.registry import LARGE, QWEN, TINY, Problem, rule

_TRAINING = ("train", "finetune")


@rule(
    "native.run_mode",
    "error",
    "mindformers only trains in the modes train and finetune, and checks no section in a mode it does not know",
    outcome="stops",
    source="mindformers core/context/validators.py validate_mf_ctx_run_mode, tools/register/template.py ConfigTemplate",
    reads="native",
    fails=[f"{TINY} native.run_mode=fintune", f"{TINY} native.run_mode=predict"],
    passes=[f"{TINY} native.run_mode=finetune"],
)
def run_mode(d: Derived) -> Iterator[Problem]:
    """The mode is none that trains."""
    mode = d.config.native.get("run_mode", "train")
    if mode not in _TRAINING:
        near = nearest_word(str(mode), _TRAINING, 1)
        yield Problem(f"native.run_mode={mode}", ("native.run_mode",), f"native.run_mode={near[0] if near else 'train'}")


@rule(
    "native.dataset_strategy",
    "error",
    "mindformers takes the whole batch for each rank's own, or stops after the model is built",
    outcome="stops",
    source="mindformers trainer/base_trainer.py _check_global_batch_size_for_auto_parallel (run)",
    reads="dataset: columns source; native; parallel: data_parallel full_batch mode",
    fails=[
        f"{LARGE} 'native.parallel.dataset_strategy=[[1,1]]' parallel.full_batch=false",
        f"{LARGE} 'native.parallel.dataset_strategy=[[8,1]]'",
        f"{QWEN} 'native.parallel.dataset_strategy=[[8,1],[8,1]]' parallel.full_batch=false",
        f"{LARGE} native.parallel.dataset_strategy=data_parallel parallel.full_batch=false",
        f"{LARGE} native.parallel.full_batch=false",
    ],
    passes=[f"{LARGE} parallel.full_batch=false", f"{LARGE} 'native.parallel.dataset_strategy=[[8,1]]' parallel.full_batch=false"],
)
def dataset_strategy(d: Derived) -> Iterator[Problem]:
    """The strategy of the data does not fit columns and replicas, or is missing."""
    p, given = d.config.parallel, section(d.config.native, "parallel")
    if p.mode not in SHARDED:
        return
    full_batch, strategy = given.get("full_batch", p.full_batch), given.get("dataset_strategy")
    if full_batch is False and p.full_batch and strategy is None:
        yield Problem(
            "native.parallel.full_batch=false without a dataset_strategy",
            ("native.parallel.full_batch",),
            "parallel.full_batch=false",
        )
    if strategy is None:
        return
    fault = _fault_of(strategy, d) if full_batch is False else "has no effect with full_batch=true"
    if fault:
        yield Problem(f"native.parallel.dataset_strategy={strategy} {fault}", ("native.parallel.dataset_strategy",), _mend(d))


def _fault_of(strategy: Any, d: Derived) -> str | None:
    replicas, columns = d.config.parallel.data_parallel, len(d.config.dataset.columns)
    if not isinstance(strategy, list) or not all(isinstance(row, list) and row for row in strategy):
        return "must be a list of lists, one for each column"
    if any(row[0] != replicas for row in strategy):
        return f"must begin each list with data_parallel={replicas}"
    if d.config.dataset.source != "native" and len(strategy) != columns:
        return f"must have {columns} lists, one for each column {', '.join(d.config.dataset.columns)}"
    return None


def _mend(d: Derived) -> str:
    right = [[d.config.parallel.data_parallel, 1] for _ in d.config.dataset.columns]
    return f"'native.parallel.dataset_strategy={right}' parallel.full_batch=false".replace(", ", ",")
