"""What MindSpore and mindformers say when a sharded graph does not compile, told as faults of ours: rule, key, mend.

Most of these are found by a rule before anything is started; what ``native.*`` overrides, imported recipes and models of the user's
own bring is only known when the graph is made. A message that is not among them is passed on as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mindrecipe.config.findings import Finding
from mindrecipe.measure.outcome import RankError


@dataclass(frozen=True, slots=True)
class _Known:
    """``pattern`` is sought in the message and traceback; ``why`` and ``mend`` may name its groups in braces."""

    rule: str
    pattern: str
    keys: tuple[str, ...]
    why: str
    mend: str


# messages of mindspore 2.9.0 (libmindspore_frontend.so) and mindformers 1.9.0 (the functions named)
_KNOWN = (
    _Known(
        "simulate.heads",
        r"(?:'(?:n_head|num_heads)' must be a multiple of|num_attention_heads \(\d+\) must be a multiple of)",
        ("model.num_heads", "parallel.model_parallel"),
        "each tensor-parallel device needs whole attention heads (MultiHeadAttention, ParallelAttention)",
        "a parallel.model_parallel that divides model.num_heads",
    ),
    _Known(
        "simulate.head_width",
        r"(?P<width>\d+) is not divisible by (?P<heads>\d+)",
        ("model.hidden_size", "model.num_heads"),
        "{width} is not a whole number of heads: {heads} of them do not divide it (LlamaForCausalLM)",
        "a model.num_heads that divides model.hidden_size",
    ),
    _Known(
        "simulate.kv_heads",
        r"'(?:n_kv_head|kv_num_heads)' must be a multiple of",
        ("model.num_kv_heads", "parallel.model_parallel"),
        "each tensor-parallel device needs whole key/value heads (MultiHeadAttention, ParallelAttention)",
        "a parallel.model_parallel that divides model.num_kv_heads",
    ),
    _Known(
        "simulate.feed_forward",
        r"'FeedForward', the class variable '(?:hidden_dim|dim)' must be a multiple of",
        ("model.intermediate_size", "model.hidden_size", "parallel.model_parallel"),
        "the feed-forward matrices are cut over the tensor-parallel devices (LlamaFeedForward)",
        "a parallel.model_parallel that divides model.hidden_size and model.intermediate_size",
    ),
    _Known(
        "simulate.experts",
        r"num_moe_experts \((?P<experts>\d+)\) should be divisible by",
        ("parallel.expert_parallel", "model.extra"),
        "each expert-parallel device holds whole experts (TransformerConfig)",
        "a parallel.expert_parallel that divides {experts}",
    ),
    _Known(
        "simulate.moe_sequence_parallel",
        r"MoE and tensor parallelism ?are enabled without also enabling sequence parallelism",
        ("parallel.use_seq_parallel", "parallel.model_parallel"),
        "mindformers trains experts under tensor parallelism with sequence parallelism only (MoELayer)",
        "parallel.use_seq_parallel=true",
    ),
    _Known(
        "simulate.batch",
        r"batch_size should be divisible by dp",
        ("dataset.batch_size", "parallel.data_parallel"),
        "every replica reads the same number of sequences (mindformers check_rules)",
        "a dataset.batch_size that parallel.data_parallel divides",
    ),
    _Known(
        "simulate.micro_batches",
        r"(?:MicroBatch num must be larger or equal than StageNum|size of micro_batch must be greater than or equal to stage_num"
        r"|batch data must be split into micro batch)",
        ("parallel.micro_batch_num", "parallel.pipeline_stage"),
        "a pipeline needs at least one micro batch a stage (MindSpore's pipeline scheduler)",
        "parallel.micro_batch_num at least parallel.pipeline_stage, better four times as many",
    ),
    _Known(
        "simulate.zero_bubble",
        r"zero_bubble_v scheduler, micro_size must be greater than or equal to twice stage_num",
        ("parallel.micro_batch_num", "parallel.pipeline_scheduler"),
        "a zero-bubble pipeline runs two chunks a stage",
        "parallel.micro_batch_num at least twice parallel.pipeline_stage",
    ),
    _Known(
        "simulate.stages",
        r"[Dd]evice_num must be divisible by (?:the )?stage_num",
        ("parallel.pipeline_stage", "launch.devices_per_node"),
        "every stage has the same number of devices",
        "a parallel.pipeline_stage that divides the number of devices",
    ),
    _Known(
        "simulate.layers",
        r"sum of `offset` \((?P<sum>-?\d+)\) should equal to remainder of `num_layers`",
        ("model.offset", "model.num_layers", "parallel.pipeline_stage"),
        "the stages must hold all layers: what does not divide is in model.offset, and its sum is {sum} (LlamaForCausalLM)",
        "a model.offset of pipeline_stage numbers whose sum is what num_layers leaves over",
    ),
    _Known(
        "simulate.sizes",
        r"should be equal to device_num",
        ("parallel.data_parallel", "parallel.model_parallel", "parallel.context_parallel", "parallel.pipeline_stage"),
        "the sizes of the mesh multiply to the number of devices (mindformers check_rules)",
        "parallel.data_parallel=null",
    ),
    _Known(
        "simulate.context_parallel",
        r"should be divisible by ulysses_degree_in_cp",
        ("parallel.ulysses_degree_in_cp", "parallel.context_parallel"),
        "the Ulysses part is a factor of context parallelism",
        "a parallel.ulysses_degree_in_cp that divides parallel.context_parallel",
    ),
    _Known(
        "simulate.context_parallel_heads",
        r"need cp \* mp <= attention head",
        ("parallel.context_parallel", "parallel.model_parallel", "model.num_heads"),
        "Ulysses and tensor parallelism both share the heads of attention (mindformers check_rules)",
        "context_parallel x model_parallel at most the heads, or parallel.context_parallel_algo=colossalai_cp",
    ),
    _Known(
        "simulate.context_parallel_flash",
        r"context_parallel is only available for flash attention",
        ("model.use_flash_attention", "parallel.context_parallel"),
        "only flash attention computes a part of a sequence (mindformers check_rules)",
        "model.use_flash_attention=true",
    ),
    _Known(
        "simulate.recompute_stages",
        r"should be equal or less than pipeline_stage number",
        ("recompute.layers", "recompute.patterns", "parallel.pipeline_stage"),
        "layers that are computed again are counted for each stage (mindformers check_rules)",
        "as many numbers as parallel.pipeline_stage",
    ),
    _Known(
        "simulate.recompute_slice",
        r"`recompute_slice_activation` is not supported",
        ("recompute.recompute_slice_activation",),
        "mindformers' mcore models refuse it (TransformerConfig)",
        "recompute.recompute_slice_activation=false",
    ),
    _Known(
        "simulate.kernel",
        r"(?:Unsupported op \[|The operator \[|Select kernel fail|can not find any kernel)(?P<operator>\w+)?",
        ("device.name", "model.extra"),
        "MindSpore has no Ascend kernel for operator {operator} with these dtypes",
        "another amp level, or model.extra without what asks for it",
    ),
    _Known(
        "simulate.strategy",
        r"(?P<detail>[^\n]*(?:not be divisible by (?:the )?strategy(?: value)?|Invalid strategy|not divisible by layout)[^\n]*)",
        ("parallel.model_parallel", "parallel.data_parallel", "parallel.context_parallel"),
        "MindSpore can't cut an operator's input the way the mesh asks: {detail}",
        "parallel sizes that divide batch, sequence, heads and widths of the model",
    ),
    _Known(
        "simulate.accumulated_gradients",
        r"define `accu_grads`|pointer\[grad_accu\] is null",
        ("native", "schedule.type"),
        "MindSpore has renamed the weights and misses the buffers their gradients are summed in (seen with native.lr_schedule=null)",
        "a schedule in place of a bare learning rate: schedule=constant",
    ),
    _Known(
        "simulate.unknown_key",
        r"gets an unexpected key:? ?(?P<key>\S+)?",
        ("native",),
        "mindformers refuses unknown keys of its sections (ConfigTemplate)",
        "no native override of that name",
    ),
)


def explained(error: RankError) -> Finding | None:
    """The fault that ``error`` is, in our terms; None where it is not one we know.

    MindSpore's exception may only say which operator failed ("Failure:operator RmsNorm init failed"), and its log why.
    """
    return _told(error, f"{error.message}\n{_exception_text(error.traceback or '')}") or _told(error, _logged(Path(error.log)))


def _told(error: RankError, text: str) -> Finding | None:
    for known in _KNOWN:
        found = re.search(known.pattern, text)
        if found is not None:
            groups = {name: (value or "?").strip() for name, value in found.groupdict().items()}
            said = error.first_line.removeprefix(f"{error.type}: ")
            return Finding(
                rule=known.rule,
                severity="error",
                what=f"{known.rule}: {error.who} does not compile: {said}",
                keys=known.keys,
                why=known.why.format(**groups),
                mend=f"{known.mend.format(**groups)} ({', '.join(known.keys)})",
            )
    return None


def _logged(log: Path) -> str:
    """What MindSpore's own code logged as errors, a line each, without time and place."""
    if not log.is_file():
        return ""
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(re.findall(r"^\[ERROR\] (?!ME\()[^\n]*?\] \w+\] ([^\n]*)$", text, flags=re.MULTILINE))


def _exception_text(traceback: str) -> str:
    """What the exception itself says: neither the lines of code above it, nor the call stacks that MindSpore writes below."""
    said = re.split(r"^[\w.]*(?:Error|Exception): ", traceback, flags=re.MULTILINE)[-1]
    return re.split(r"C\+\+ Call Stack|The Traceback of Net Construct Code", said)[0]
