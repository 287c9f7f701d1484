"""Rules of recomputation: how many layers of which stage, and which operators."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import is_v_shaped
from mindrecipe.rules.registry import LARGE, STAGES, TINY, Problem, rule

V_SHAPED = f"{STAGES} parallel.pipeline_scheduler=zero_bubble_v parallel.pipeline_interleave=2 parallel.micro_batch_num=8"


@rule(
    "recompute.unread",
    "error",
    "only the policy per_stage takes layers, only selective and attention take patterns",
    outcome="ignored",
    source="lower/parallel.py; mindformers RecomputeConfig",
    reads="recompute: layers patterns policy",
    fails=[
        f"{TINY} recompute.layers=[1]",
        f"{LARGE} recompute=full recompute.layers=[1]",
        rf"""{TINY} 'recompute.patterns=["feed_forward\.mul"]'""",
    ],
    passes=[
        f"{TINY} recompute=per_stage recompute.layers=[1]",
        rf"""{TINY} recompute=selective 'recompute.patterns=["feed_forward\.mul"]'""",
    ],
)
def recompute_unread(d: Derived) -> Iterator[Problem]:
    """Layers or patterns are given to a policy that takes none."""
    r = d.config.recompute
    if r.layers is not None and r.policy != "per_stage":
        yield Problem(f"recompute.layers has no effect with recompute.policy={r.policy}", ("recompute.layers",), "recompute=per_stage")
    if r.patterns is not None and r.policy not in ("selective", "attention"):
        yield Problem(f"recompute.patterns has no effect with recompute.policy={r.policy}", ("recompute.patterns",), "recompute=selective")


@rule(
    "recompute.layers",
    "error",
    "mindformers takes one number of layers for each stage, or a row of them for each chunk of an interleaved pipeline",
    outcome="stops",
    source="mindformers tools/check_rules.py _check_recompute, LayerSetting._check_layer_rule (run)",
    reads="model: num_layers; parallel: mode pipeline_interleave pipeline_scheduler pipeline_stage; recompute: layers policy",
    fails=[
        f"{TINY} recompute=per_stage",
        f"{STAGES} recompute=per_stage recompute.layers=[1,2]",
        f"{STAGES} recompute=per_stage recompute.layers=[1,2,x,4]",
        f"{STAGES} parallel.pipeline_interleave=2 recompute=per_stage recompute.layers=[[1,1,1,1]]",
        f"{V_SHAPED} recompute=per_stage recompute.layers=[1,3,1,1]",
        f"{V_SHAPED} recompute=per_stage",
    ],
    passes=[
        f"{STAGES} parallel.pipeline_interleave=2 recompute=per_stage recompute.layers=[[1,1,1,1],[0,0,1,1]]",
        f"{LARGE} recompute=per_stage recompute.layers=[16]",
        f"{TINY} recompute.layers=[1] recompute=per_stage",
        f"{TINY} recompute=per_stage recompute.layers=[4]",
        f"{V_SHAPED} recompute=per_stage recompute.layers=[[1,1,1,1],[0,0,1,1]]",
    ],
)
def recompute_layers(d: Derived) -> Iterator[Problem]:
    """Layers to recompute are not one number for each stage (and, of zero_bubble_v, each chunk)."""
    r, stages = d.config.recompute, d.config.parallel.pipeline_stage
    if r.policy != "per_stage":
        return
    if not r.layers:
        yield Problem(
            "recompute=per_stage needs the layers of each stage",
            ("recompute.policy",),
            _all_of(d, [d.config.model.num_layers // stages] * stages),
        )
        return
    nested = isinstance(r.layers[0], list)
    rows = r.layers if nested else [r.layers]
    if not all(_counts(row, stages) and (len(row) == stages or not nested) for row in rows):
        yield Problem(
            f"recompute.layers={r.layers} must be {stages} numbers, one for each stage",
            ("recompute.layers",),
            _all_of(d, [d.config.model.num_layers // stages] * stages),
        )
    elif nested and len(rows) != d.config.parallel.pipeline_interleave:
        chunks = d.config.parallel.pipeline_interleave
        yield Problem(
            f"recompute.layers={r.layers} has {len(rows)} row{'s' * (len(rows) != 1)}, and a stage {chunks} chunk{'s' * (chunks != 1)}",
            ("recompute.layers", "parallel.pipeline_interleave"),
            f"'recompute.layers={(rows + [[0] * stages] * chunks)[:chunks]}'",
        )
    elif is_v_shaped(d.config.parallel) and not nested:
        yield Problem(
            f"recompute.layers={r.layers}: zero_bubble_v takes a row of {stages} numbers for each of the two chunks of a stage",
            ("recompute.layers", "parallel.pipeline_scheduler"),
            _all_of(d, [*r.layers, *[0] * (stages - len(r.layers))]),
        )
    elif len(r.layers) < stages and not nested:
        yield Problem(
            f"recompute.layers={r.layers} are fewer numbers than {stages} stages: the last ones recompute nothing",
            ("recompute.layers", "parallel.pipeline_stage"),
            f"'recompute.layers={[*r.layers, *[0] * (stages - len(r.layers))]}'",
            "warning",
        )


def _all_of(d: Derived, counts: list[int]) -> str:
    """recompute.layers as an override: ``counts`` of the stages, halved where each chunk of a V has numbers of its own."""
    layers = [[count - count // 2 for count in counts], [count // 2 for count in counts]] if is_v_shaped(d.config.parallel) else counts
    return f"'recompute.layers={layers}'"


def _counts(row: Any, stages: int) -> bool:
    """Whether ``row`` is numbers of layers, at most one a stage; of an interleaved pipeline there are several rows."""
    return isinstance(row, list) and 0 < len(row) <= stages and all(type(count) is int and count >= 0 for count in row)


@rule(
    "recompute.patterns",
    "error",
    "mindformers makes regular expressions of them, and counts layers of each stage",
    outcome="stops",
    source="mindformers parallel_core/training_graph/transformer/utils.py LayerSetting._format_recompute_list",
    reads="parallel: mode pipeline_interleave pipeline_scheduler pipeline_stage; recompute: patterns select_comm_recompute",
    fails=[
        f"{TINY} recompute=selective recompute.patterns=3",
        f"{TINY} recompute=selective recompute.patterns=[3]",
        f"{TINY} recompute=selective recompute.patterns=[]",
        rf"{TINY} recompute=selective 'recompute.patterns={{feed_forward\.mul: [1,2]}}'",
        rf"{TINY} recompute=selective 'recompute.patterns={{feed_forward\.mul: 3}}'",
        f"{TINY} recompute.select_comm_recompute=foo",
        rf"{V_SHAPED} recompute=selective 'recompute.patterns={{feed_forward\.mul: [1,1,1,1]}}'",
        rf"""{TINY} recompute=selective 'recompute.patterns=['"'"'feed_forward\.(mul'"'"']'""",
    ],
    passes=[
        rf"""{TINY} recompute=selective 'recompute.patterns=["feed_forward\.mul",".*\.norm"]'""",
        f"{TINY} recompute.select_comm_recompute=true",
        rf"{V_SHAPED} recompute=selective 'recompute.patterns={{feed_forward\.mul: [[1,1,1,1],[0,0,1,1]]}}'",
        f"{V_SHAPED} recompute=attention",
        rf"""{TINY} 'recompute.patterns=['"'"'feed_forward\.mul'"'"']' recompute=selective""",
    ],
)
def recompute_patterns(d: Derived) -> Iterator[Problem]:
    """Patterns are no list of regular expressions, or count other stages."""
    r = d.config.recompute
    for key in ("patterns", "select_comm_recompute"):
        given, off = getattr(r, key), "null" if key == "patterns" else "false"
        fault = _fault_of_patterns(given, d.config.parallel.pipeline_stage, is_v_shaped(d.config.parallel))
        if given is not None and not (key == "select_comm_recompute" and isinstance(given, bool)) and fault:
            yield Problem(f"recompute.{key}={given!r} {fault}", (f"recompute.{key}",), f"recompute.{key}={off}")


@rule(
    "recompute.pattern_dots",
    "warning",
    "mindformers cuts a pattern at \\. into the names of cells and operators: without it the pattern is one name, and none has a dot",
    outcome="ignored",
    source="mindformers parallel_core/training_graph/transformer/utils.py LayerSetting.set_pattern_recompute",
    reads="recompute: patterns",
    fails=[f"{TINY} recompute=selective recompute.patterns=[feed_forward.mul]"],
    passes=[rf"""{TINY} recompute=selective 'recompute.patterns=["feed_forward\.mul"]'"""],
)
def pattern_dots(d: Derived) -> Iterator[Problem]:
    """A pattern has a dot that does not separate names."""
    given = d.config.recompute.patterns
    for pattern in given if isinstance(given, list | dict) else ():
        if isinstance(pattern, str) and (re.search(r"\w\.\w", pattern) or r"\\" in pattern):
            better = re.sub(r"\\*\.(?=\w)", r"\\.", pattern)
            mend = shlex.quote(f'recompute.patterns=["{better}"]') if len(given) == 1 else f"{better} in its place"
            yield Problem(f"recompute.patterns: {pattern} selects nothing", ("recompute.patterns",), mend)


def _fault_of_patterns(given: Any, stages: int, v_shaped: bool) -> str | None:
    """What is wrong with a list of patterns, or a map pattern -> true or layers of each stage."""
    if not isinstance(given, list | dict):
        return "must be a list of patterns, or a map pattern -> true or layers of each stage"
    if not given or not all(isinstance(pattern, str) and pattern and _compiles(pattern) for pattern in given):
        return "must hold regular expressions"
    for layers in given.values() if isinstance(given, dict) else ():
        nested = isinstance(layers, list) and layers and all(isinstance(row, list) for row in layers)
        rows = layers if nested else [layers]
        if v_shaped and isinstance(layers, list) and not (nested and len(layers) == 2):
            return "must have true, false or, with zero_bubble_v, a row of numbers for each of the two chunks of a stage for each pattern"
        if not all(row is True or row is False or _counts(row, stages) for row in rows):
            return f"must have true, false or {stages} numbers of layers for each pattern"
    return None


def _compiles(pattern: str) -> bool:
    try:
        return all(re.compile(part) for part in pattern.split(r"\."))
    except re.error:
        return False


#: what mindformers' Llama recomputes by itself without flash attention, as soon as anything is selected
_BY_ITSELF = ("tile_kv", "batch_matmul_q_k", "mul", "add", "cast_attn", "softmax", "batch_matmul")


@rule(
    "recompute.twice",
    "error",
    "without flash attention mindformers' Llama recomputes it by itself, and does not build where a pattern selects it again",
    outcome="stops",
    source="run: TypeError 'bool' object is not callable; mindformers models/llama/llama_transformer.py:405",
    reads="model: use_flash_attention; recompute: patterns",
    fails=[
        rf"""{TINY} recompute=attention 'recompute.patterns=['"'"'attention\.softmax'"'"']'""",
        rf"""{TINY} recompute=selective 'recompute.patterns=['"'"'attention\..*'"'"','"'"'feed_forward\.mul'"'"']'""",
    ],
    passes=[f"{TINY} recompute=attention recompute.patterns=null", f"{TINY} recompute=selective recompute.patterns=null"],
)
def recompute_twice(d: Derived) -> Iterator[Problem]:
    """Attention is selected that is recomputed already."""
    given = d.config.recompute.patterns
    if d.family.name != "llama" or d.config.model.use_flash_attention or not isinstance(given, list | dict):
        return
    for pattern in filter(_compiles, map(str, given)):
        parts = pattern.split(r"\.")
        if len(parts) == 2 and re.fullmatch(parts[0], "attention") and any(re.fullmatch(parts[1], name) for name in _BY_ITSELF):
            yield Problem(f"recompute.patterns: {pattern} without flash attention", ("recompute.patterns",), "recompute.patterns=null")


@rule(
    "recompute.slice_activation",
    "error",
    "mindformers' mcore models refuse it",
    outcome="stops",
    source="mindformers parallel_core/transformer_config.py __post_init__ (run)",
    reads="recompute: recompute_slice_activation",
    fails=["+model=qwen3_tiny recompute.recompute_slice_activation=true"],
    passes=["+model=qwen3_tiny recompute.recompute_slice_activation=false"],
)
def slice_activation(d: Derived) -> Iterator[Problem]:
    """Kept activations are to be sliced in an mcore model."""
    if d.config.recompute.recompute_slice_activation and d.family.architecture == "mcore":
        yield Problem(
            "recompute.recompute_slice_activation=true with an mcore model",
            ("recompute.recompute_slice_activation",),
            "recompute.recompute_slice_activation=false",
        )
