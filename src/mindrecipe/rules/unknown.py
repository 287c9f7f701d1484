"""Keys under native that mindformers or MindSpore do not know: refused when the file is loaded, or dropped without a word."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mindrecipe.config.findings import Severity
from mindrecipe.derive import Derived
from mindrecipe.lower.known import CONTEXT, GENERATION, LLAMA, PARALLEL, SCHEDULES, TOP
from mindrecipe.lower.names import KNOBS
from mindrecipe.lower.optimization import SCHEDULE_TYPES
from mindrecipe.lower.parts import LOSS_MONITOR
from mindrecipe.lower.template import SECTIONS
from mindrecipe.rules.native import section
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule


@rule(
    "native.unknown_key",
    "error",
    "mindformers loads no file with it, or MindSpore ends the run",
    outcome="stops",
    source=(
        "mindformers tools/register/template.py BaseConfig (closed sections); "
        "mindspore context.py set_auto_parallel_context ('not recognized')"
    ),
    reads="native; parallel: mode",
    fails=[
        f"{TINY} native.runner_config.epoch=3",
        f"{TINY} native.recompute_config.recompute_all=true",
        f"{LARGE} native.parallel.gradient_mean=true",
        f"{TINY} native.swap_config.swaps=true",
    ],
    passes=[f"{TINY} native.runner_config.num_classes=3", f"{LARGE} native.parallel.gradient_fp32_sync=false"],
)
def refused(d: Derived) -> Iterator[Problem]:
    """A native section has a key that its reader refuses."""
    for name, given in d.config.native.items():
        known = SECTIONS.get(name)
        if known is not None and known.closed and isinstance(given, Mapping):
            yield from unlike(name, given, known.defaults, "mindformers refuses it")
    if d.config.parallel.mode != "standalone":
        yield from unlike("parallel", section(d.config.native, "parallel"), PARALLEL, "MindSpore does not recognize it")


@rule(
    "native.ignored_key",
    "warning",
    "mindformers says so in one line of its log, or not at all",
    outcome="ignored",
    source=(
        "mindformers tools/register/template.py ConfigTemplate ('useless'), core/context/build_context.py ('did not take effect'), "
        "models/llama/llama_config.py LlamaConfig (**kwargs)"
    ),
    reads="native; model: extra; run: imported_from; schedule: extra type",
    fails=[
        f"{TINY} native.runer_config.epochs=3",
        f"{TINY} native.context.enable_graph_kernel=true",
        f"{TINY} native.model.model_config.n_head=3",
        f"{TINY} model.extra.use_flash_atention=true",
        f"{TINY} native.lr_schedule.warmup_step=3",
        f"{TINY} schedule.extra.decay_step=3",
        f"{TINY} native.callbacks.MFLossMonitor.per_print_time=5",
    ],
    passes=[f"{TINY} native.context.save_graphs=true", f"{TINY} native.profiler_level=1", f"{TINY} model.extra.qkv_concat=true"],
)
def ignored(d: Derived) -> Iterator[Problem]:
    """A native key is read by nothing."""
    severity: Severity | None = "advice" if d.config.run.imported_from else None  # the report of the import has said it
    for problem in _ignored(d):
        yield replace(problem, severity=severity)


def _ignored(d: Derived) -> Iterator[Problem]:
    native = d.config.native
    yield from unlike("", native, TOP, "mindformers reads no such key")
    yield from unlike(
        "callbacks.MFLossMonitor", section(section(native, "callbacks"), "MFLossMonitor"), LOSS_MONITOR, "MFLossMonitor swallows it"
    )
    yield from unlike("context", section(native, "context"), CONTEXT, "mindformers does not hand it on to MindSpore")
    schedule = section(native, "lr_schedule")
    known = SCHEDULES.get(str(schedule.get("type") or SCHEDULE_TYPES.get(d.config.schedule.type, "")))
    if known is not None:
        text = "the schedule has no such argument and swallows it"
        yield from unlike("lr_schedule", schedule, known, text)
        yield from unlike("schedule.extra", d.config.schedule.extra, known, text, prefix="")
    if d.family.name == "llama":
        known = {*LLAMA, *GENERATION}
        text = "LlamaConfig has no such argument and swallows it"
        yield from unlike("model.model_config", section(section(native, "model"), "model_config"), known, text)
        yield from unlike("model.extra", d.config.model.extra, known, text, prefix="")


def unlike(place: str, given: Mapping[str, Any], known: Collection[str], what: str, prefix: str = "native.") -> Iterator[Problem]:
    """One problem for each key of ``given`` that is like a known one, and one for all the others together."""
    others = []
    for key in given:
        if key in known or not isinstance(key, str):
            continue
        near = difflib.get_close_matches(key, sorted(known), 1, cutoff=0.8)
        path = f"{prefix}{place}.{key}" if place else f"{prefix}{key}"
        if not near:
            others.append(path)
            continue
        right = f"{place}.{near[0]}" if place else near[0]
        yield Problem(f"{path}: {what}, but {near[0]}", _places(path, given[key]), _better(prefix, right, path, given[key]))
    if others:
        names = ", ".join(path.rpartition(".")[2] for path in others)
        keys = (key for path in others for key in _places(path, given[path.rpartition(".")[2]]))
        yield Problem(
            f"{others[0].rpartition('.')[0]}: {what}: {names}" if len(others) > 1 else f"{others[0]}: {what}",
            tuple(keys),
            " ".join(f"~{path}" for path in others),
        )


def _better(prefix: str, right: str, wrong: str, value: Any) -> str:
    """The known key with the value of the wrong one, where that can be typed."""
    knob = KNOBS.get(right) if prefix else None
    plain = isinstance(value, int | float) or (isinstance(value, str) and value.replace("_", "").isalnum())
    shown = str(value).lower() if isinstance(value, bool) else value
    return f"{knob or prefix + right}={shown} ~{wrong}" if plain else f"~{wrong}"


def _places(path: str, value: Any) -> tuple[str, ...]:
    """``path``, and the keys inside of it: one of these may have been written."""
    return (path, *(f"{path}.{key}" for key in value)) if isinstance(value, Mapping) else (path,)
