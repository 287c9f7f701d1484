"""Rules of the pipeline: stages, the layers they hold, the micro batches that fill them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.plan.offsets import layers_of_stages
from mindrecipe.rules.mesh import is_refused
from mindrecipe.rules.registry import LARGE, QWEN, STAGES, TINY, Problem, rule


@rule(
    "mesh.micro_batches",
    "error",
    "the pipeline can't be filled: compilation stops",
    outcome="stops",
    source=(
        "MindSpore Transformers documentation, configuration: micro_batch_num; run: passes mindformers' checks and stops "
        "when the graph is compiled"
    ),
    reads="parallel: micro_batch_num mode pipeline_stage",
    fails=[f"{LARGE} parallel.pipeline_stage=2 parallel.micro_batch_num=1"],
    passes=[f"{LARGE} parallel.pipeline_stage=2 parallel.micro_batch_num=2"],
)
def micro_batches(d: Derived) -> Iterator[Problem]:
    """A pipeline has fewer micro batches than stages."""
    p = d.config.parallel
    if p.mode in SHARDED and p.pipeline_stage > 1 and p.micro_batch_num < p.pipeline_stage:
        yield Problem(
            f"parallel.micro_batch_num={p.micro_batch_num} is less than pipeline_stage={p.pipeline_stage}",
            ("parallel.micro_batch_num", "parallel.pipeline_stage"),
            f"parallel.micro_batch_num={p.pipeline_stage}",
        )


@rule(
    "mesh.micro_batches_reset",
    "warning",
    "with one stage mindformers resets micro_batch_num to 1",
    outcome="ignored",
    source="mindformers trainer/base_trainer.py _check_global_batch_size_for_auto_parallel",
    reads="parallel: micro_batch_num mode pipeline_stage",
    fails=[f"{LARGE} parallel.data_parallel=8 parallel.micro_batch_num=16"],
    passes=[f"{LARGE} parallel.data_parallel=8 parallel.micro_batch_num=1 parallel.gradient_accumulation_steps=16"],
)
def micro_batches_reset(d: Derived) -> Iterator[Problem]:
    """Several micro batches without a pipeline."""
    p = d.config.parallel
    if p.mode in SHARDED and p.pipeline_stage == 1 and p.micro_batch_num > 1:
        yield Problem(
            f"parallel.micro_batch_num={p.micro_batch_num} has no effect with one stage: the global batch is {d.global_batch_size}",
            ("parallel.micro_batch_num",),
            f"parallel.micro_batch_num=1 parallel.gradient_accumulation_steps={p.micro_batch_num}",
        )


@rule(
    "mesh.layers",
    "error",
    "mindformers cuts the layers evenly and adds offset; a rest would not be trained or is refused at build",
    outcome="stops",
    source="mindformers parallel_core/training_graph/transformer/utils.py LayerSetting._check_inputs (run)",
    reads="model: num_layers offset; parallel: context_parallel data_parallel mode model_parallel pipeline_interleave pipeline_stage",
    fails=[
        f"{STAGES} model.num_layers=30",
        f"{STAGES} model.num_layers=30 model.offset=2",
        f"{STAGES} model.num_layers=3",
        f"{STAGES} model.num_layers=7 parallel.pipeline_interleave=2",
        f"{STAGES} model.offset=[1,-1]",
        f"{STAGES} model.offset=[1,0,0,0]",
        f"{STAGES} model.offset=[8,-8,0,0]",
        f"{STAGES} model.num_layers=34 parallel.pipeline_interleave=2 model.offset=[1,1,0,0]",
        f"{STAGES} model.offset=[a,b,c,d]",
    ],
    passes=[
        f"{LARGE} model.num_layers=61 parallel.pipeline_stage=8 parallel.micro_batch_num=8 "
        "parallel.pipeline_interleave=2 'model.offset=[[1,1,1,1,1,1,1,1],[1,1,1,1,1,1,1,-2]]'",
        f"{STAGES} model.num_layers=30 model.offset=[0,1,1,0]",
        f"{LARGE} parallel.micro_batch_num=4 model.num_layers=3 parallel.pipeline_stage=1",
    ],
)
def layers(d: Derived) -> Iterator[Problem]:
    """Layers and offset do not add up over the stages."""
    p, m, number = d.config.parallel, d.config.model, _layers(d)
    chunks = p.pipeline_stage * p.pipeline_interleave
    if p.mode not in SHARDED or p.pipeline_stage == 1 or is_refused(d):
        return
    if number < chunks:
        yield Problem(
            f"model.num_layers={m.num_layers} is fewer than pipeline_stage x pipeline_interleave = {chunks}",
            ("parallel.pipeline_stage", "parallel.pipeline_interleave", "model.num_layers"),
            _fewer_chunks(d),
        )
        return
    rest = number % chunks
    wanted = f"'model.offset={_offset_text(rest, p.pipeline_stage, p.pipeline_interleave)}'" if rest else "model.offset=0"
    expected = f"one number for each of {p.pipeline_stage} stages" + (
        f", in {p.pipeline_interleave} lists" if p.pipeline_interleave > 1 else ""
    )
    held = layers_of_stages(number, p.pipeline_stage, p.pipeline_interleave, m.offset)
    if held is None:
        yield Problem(f"model.offset={m.offset} must be {expected}", ("model.offset", "parallel.pipeline_stage"), wanted)
    elif sum(map(sum, held)) != number:
        yield Problem(
            f"model.offset={m.offset} gives {sum(map(sum, held))} layers to {chunks} stages, but model.num_layers is {number}",
            ("model.offset", "model.num_layers", "parallel.pipeline_stage"),
            wanted,
        )
    elif min(flat := [count for row in held for count in row]) < 0 or min(flat[1:-1], default=1) < 1:
        yield Problem(f"model.offset={m.offset} leaves a stage without layers: {held}", ("model.offset",), wanted)


def _layers(d: Derived) -> int:
    """Layers that are laid over the stages: legacy models count their multi-token prediction layers, mcore ones do not."""
    more = d.config.model.extra.get("mtp_depth", 0) if d.family.name == "custom" else 0
    return d.config.model.num_layers + (more if isinstance(more, int) else 0)


@rule(
    "mesh.pipeline_unread",
    "error",
    "it says how a pipeline is run",
    outcome="ignored",
    source=(
        "mindspore parallel/_auto_parallel_context.py pipeline_config; mindformers "
        "parallel_core/training_graph/transformer/utils.py LayerSetting"
    ),
    reads="model: offset; parallel: mode pipeline_interleave pipeline_scheduler pipeline_stage seq_split_num",
    fails=[
        f"{LARGE} model.offset=[1]",
        f"{TINY} model.offset=1",
        f"{LARGE} parallel.pipeline_interleave=2",
        f"{LARGE} parallel.pipeline_scheduler=1f1b",
        f"{LARGE} parallel.seq_split_num=2",
    ],
    passes=[f"{LARGE} model.offset=0", f"{TINY} model.offset=0", f"{LARGE} parallel.pipeline_interleave=1"],
)
def pipeline_unread(d: Derived) -> Iterator[Problem]:
    """A knob of the pipeline is set where there is none."""
    p = d.config.parallel
    if p.mode in SHARDED and p.pipeline_stage > 1:
        return
    for key, value, plain, off in (
        ("model.offset", d.config.model.offset, 0, "0"),
        ("parallel.pipeline_interleave", p.pipeline_interleave, 1, "1"),
        ("parallel.pipeline_scheduler", p.pipeline_scheduler, None, "null"),
        ("parallel.seq_split_num", p.seq_split_num, 1, "1"),
    ):
        if value != plain:
            yield Problem(f"{key}={value} has no effect without pipeline stages", (key,), f"{key}={off}")


@rule(
    "mesh.vocab_emb_dp_reset",
    "warning",
    "with several stages, and in mcore models, mindformers splits the embedding whatever is written",
    outcome="ignored",
    source="mindformers models/llama/llama.py, parallel_core/transformer_config.py __post_init__; mindformers merge request 3548",
    reads="parallel: mode pipeline_stage vocab_emb_dp",
    fails=[f"{STAGES} parallel.vocab_emb_dp=true", f"{QWEN} parallel.vocab_emb_dp=true"],
    passes=[f"{STAGES} parallel.vocab_emb_dp=null", f"{QWEN} parallel.vocab_emb_dp=null"],
)
def vocab_emb_dp_reset(d: Derived) -> Iterator[Problem]:
    """A replicated embedding is asked for where mindformers splits it."""
    p = d.config.parallel
    stages, mcore = p.mode in SHARDED and p.pipeline_stage > 1, d.family.architecture == "mcore"
    if p.vocab_emb_dp and (stages or mcore):
        yield Problem(
            f"parallel.vocab_emb_dp=true has no effect with {f'pipeline_stage={p.pipeline_stage}' if stages else d.family.name}",
            ("parallel.vocab_emb_dp",),
            "parallel.vocab_emb_dp=null",
        )


def _fewer_chunks(d: Derived) -> str:
    """Overrides for a pipeline that the layers are enough for."""
    p, m = d.config.parallel, d.config.model
    stages = p.pipeline_stage
    if m.num_layers < stages:
        stages = math.gcd(m.num_layers, max(1, d.device_num // (p.model_parallel * p.context_parallel)))
    rest = m.num_layers % stages
    offset = f"'model.offset={_offset_text(rest, stages, 1)}'" if rest else "model.offset=0"
    words = [
        f"parallel.pipeline_stage={stages}" if stages != p.pipeline_stage else "",
        "parallel.pipeline_interleave=1" if p.pipeline_interleave > 1 else "",
        offset if rest or m.offset != 0 else "",
    ]
    return " ".join(filter(None, words))


def _offset_text(rest: int, stages: int, interleave: int) -> str:
    """An offset that gives the middle stages the extra layers: the first holds the embedding, the last the output layer."""
    order = [*range(1, stages - 1), 0, stages - 1] if stages > 2 else [*range(stages)]
    rows = []
    for _ in range(interleave):
        row = [0] * stages
        for stage in order[: min(rest, stages)]:
            row[stage] = 1
        rest -= sum(row)
        rows.append(row)
    return str(rows if interleave > 1 else rows[0]).replace(" ", "")
