"""Rules of mindformers' mcore models: what the legacy ones can and these refuse, or read under another name."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.rules.registry import QWEN, Problem, rule

#: names of the number of multi-token prediction layers in model_config (parallel_core/transformer_config_utils.py)
MTP = ("mtp_depth", "num_nextn_predict_layers", "mtp_num_layers")


@rule(
    "mesh.mcore_sequence_parallel",
    "error",
    "mindformers refuses to split activations over one device",
    outcome="stops",
    source="mindformers parallel_core/transformer_config.py __post_init__ ('Can not use sequence parallelism without tensor parallelism')",
    reads="parallel: mode model_parallel use_seq_parallel",
    fails=[f"{QWEN} parallel.use_seq_parallel=true"],
    passes=[f"{QWEN} parallel.use_seq_parallel=true parallel.model_parallel=2"],
)
def sequence_parallel(d: Derived) -> Iterator[Problem]:
    """An mcore model has sequence parallelism without tensor parallelism."""
    p = d.config.parallel
    if d.family.architecture == "mcore" and p.mode in SHARDED and p.use_seq_parallel and p.model_parallel == 1:
        yield Problem(
            "parallel.use_seq_parallel=true with model_parallel=1",
            ("parallel.use_seq_parallel", "parallel.model_parallel"),
            "parallel.use_seq_parallel=false",
        )


@rule(
    "mesh.mcore_pieces",
    "error",
    "mindformers refuses it where the network is wrapped, after the model is built",
    outcome="stops",
    source="mindformers trainer/base_trainer.py ('is not supported when use_legacy=False')",
    reads="parallel: micro_batch_interleave_num mode pipeline_scheduler pipeline_stage seq_split_num",
    fails=[
        f"{QWEN} parallel.micro_batch_interleave_num=2",
        f"{QWEN} parallel.pipeline_stage=2 parallel.micro_batch_num=2 parallel.seq_split_num=2",
        f"{QWEN} parallel.pipeline_stage=2 parallel.micro_batch_num=2 parallel.pipeline_scheduler=seqpipe",
    ],
    passes=[QWEN, f"{QWEN} parallel.pipeline_stage=2 parallel.micro_batch_num=2"],
)
def pieces(d: Derived) -> Iterator[Problem]:
    """An mcore model has its batch interleaved, its sequence cut into pieces, or a pipeline of such pieces."""
    p = d.config.parallel
    if d.family.architecture != "mcore" or p.mode not in SHARDED:
        return
    if p.micro_batch_interleave_num > 1:
        key = "parallel.micro_batch_interleave_num"
        yield Problem(f"{key}={p.micro_batch_interleave_num} with an mcore model", (key,), f"{key}=1")
    if p.seq_split_num > 1 and p.pipeline_stage > 1:
        key = "parallel.seq_split_num"
        yield Problem(f"{key}={p.seq_split_num} with an mcore model", (key,), f"{key}=1")
    elif p.pipeline_stage > 1 and (p.pipeline_scheduler or "").startswith("seq"):
        key = "parallel.pipeline_scheduler"
        yield Problem(f"{key}={p.pipeline_scheduler} with an mcore model", (key,), f"{key}=null")


@rule(
    "mesh.mcore_hybrid",
    "error",
    "mindformers converts no such algorithm for mcore models: there ulysses_degree_in_cp alone says how much of it is Ulysses",
    outcome="stops",
    source="mindformers parallel_core/transformer_config_utils.py get_cp_comm_type (run)",
    reads="parallel: context_parallel context_parallel_algo mode",
    fails=[f"{QWEN} parallel.context_parallel=4 parallel.context_parallel_algo=hybrid_cp parallel.ulysses_degree_in_cp=2"],
    passes=[f"{QWEN} parallel.context_parallel=4 parallel.context_parallel_algo=ulysses_cp parallel.ulysses_degree_in_cp=2"],
)
def hybrid(d: Derived) -> Iterator[Problem]:
    """An mcore model is to use hybrid_cp."""
    p = d.config.parallel
    if d.family.architecture == "mcore" and p.mode in SHARDED and p.context_parallel > 1 and p.context_parallel_algo == "hybrid_cp":
        yield Problem(
            f"parallel.context_parallel_algo=hybrid_cp with {d.family.name}",
            ("parallel.context_parallel_algo",),
            "parallel.context_parallel_algo=ulysses_cp",
        )


@rule(
    "mesh.mcore_ulysses",
    "error",
    "mcore models go by ulysses_degree_in_cp alone: with 1 the keys and values are gathered as in colossalai_cp",
    outcome="differs",
    source="mindformers parallel_core/training_graph/transformer/attention.py (hierarchical_context_parallel_sizes is all that is read)",
    reads="parallel: context_parallel context_parallel_algo mode ulysses_degree_in_cp",
    fails=[f"{QWEN} parallel.context_parallel=2 parallel.context_parallel_algo=ulysses_cp"],
    passes=[f"{QWEN} parallel.context_parallel=2 parallel.context_parallel_algo=ulysses_cp parallel.ulysses_degree_in_cp=2"],
)
def ulysses(d: Derived) -> Iterator[Problem]:
    """An mcore model is to use ulysses_cp by its name."""
    p = d.config.parallel
    if d.family.architecture != "mcore" or p.mode not in SHARDED or p.context_parallel == 1:
        return
    if p.context_parallel_algo == "ulysses_cp" and p.ulysses_degree_in_cp == 1:
        yield Problem(
            f"parallel.context_parallel_algo=ulysses_cp has no effect with {d.family.name} and ulysses_degree_in_cp=1",
            ("parallel.context_parallel_algo",),
            f"parallel.ulysses_degree_in_cp={p.context_parallel}",
        )


@rule(
    "model.mtp_layers",
    "error",
    "mindformers 1.9.0 supports one multi-token prediction layer",
    outcome="stops",
    source="mindformers parallel_core/transformer_config.py __post_init__",
    reads="model: extra",
    fails=["model=custom run.name=mine model.architecture=mcore parallel=semi_auto model.extra.num_nextn_predict_layers=2"],
    passes=["model=custom run.name=mine model.architecture=mcore parallel=semi_auto model.extra.num_nextn_predict_layers=1"],
)
def mtp_layers(d: Derived) -> Iterator[Problem]:
    """An mcore model has more than one multi-token prediction layer."""
    extra = d.config.model.extra
    for key in MTP if d.family.architecture == "mcore" else ():
        layers = extra.get(key) or 0
        if not isinstance(layers, int) or not 0 <= layers <= 1:
            yield Problem(f"model.extra.{key}={layers}", (f"model.extra.{key}",), f"model.extra.{key}=1")
