"""Rules of mixture-of-experts layers: how many experts, and the devices that share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mindrecipe.derive import Derived
from mindrecipe.derive.mesh import SHARDED
from mindrecipe.models import mcore
from mindrecipe.rules.mesh import divisor_near, is_refused
from mindrecipe.rules.registry import Problem, rule

#: a mixture of experts of mcore, and a legacy one
MCORE = "model=custom run.name=mine model.architecture=mcore parallel=semi_auto model.extra.num_experts=8"
LEGACY = "model=custom run.name=mine parallel=semi_auto native.moe_config.expert_num=8"


def experts_of(d: Derived) -> int | None:
    """Experts of each layer; None for a dense model, and where it is not told in a name that mindformers reads."""
    given = d.config.native.get("moe_config")
    legacy = given.get("expert_num") if isinstance(given, Mapping) and d.family.architecture == "legacy" else None
    values = [legacy, *(d.config.model.extra.get(key) for key in mcore.EXPERTS if d.family.name.startswith("custom"))]
    return next((value for value in values if isinstance(value, int) and value > 1), None)


@rule(
    "mesh.experts",
    "error",
    "mindformers refuses it when the layer is built",
    outcome="stops",
    source=(
        "mindformers parallel_core/training_graph/transformer/moe/moe_layer.py, moe/ffn.py, "
        "modules/transformer/moev3.py; mindformers' published mixtral_64x28b has 16 over 8"
    ),
    reads="model: extra; native; parallel: context_parallel data_parallel expert_parallel mode model_parallel pipeline_stage",
    fails=[
        f"{MCORE} parallel.expert_parallel=16 parallel.model_parallel=8 parallel.use_seq_parallel=true",
        f"{MCORE} parallel.expert_parallel=3",
        f"{LEGACY} parallel.expert_parallel=16",
    ],
    passes=[f"{MCORE} parallel.expert_parallel=8", f"{MCORE} parallel.expert_parallel=4", f"{LEGACY} parallel.expert_parallel=2"],
)
def experts(d: Derived) -> Iterator[Problem]:
    """The devices that share the experts do not divide them, or data_parallel x model_parallel."""
    p, number = d.config.parallel, experts_of(d)
    if number is None or p.mode not in SHARDED or is_refused(d) or p.expert_parallel == 1:
        return
    devices = (p.data_parallel or 1) * p.model_parallel
    common = max(k for k in range(1, min(number, devices) + 1) if number % k == 0 and devices % k == 0)
    mend = f"parallel.expert_parallel={divisor_near(common, p.expert_parallel)}"
    if number % p.expert_parallel:
        yield Problem(f"parallel.expert_parallel={p.expert_parallel} does not divide {number} experts", ("parallel.expert_parallel",), mend)
    elif devices % p.expert_parallel:
        yield Problem(
            f"parallel.expert_parallel={p.expert_parallel} does not divide data_parallel x model_parallel = {devices}",
            ("parallel.expert_parallel", "parallel.model_parallel", "parallel.data_parallel"),
            mend,
        )


@rule(
    "mesh.experts_sequence_parallel",
    "error",
    "mindformers refuses experts beside tensor parallelism where activations are not split",
    outcome="stops",
    source="mindformers tools/check_rules.py _check_moe_parallel_valid; parallel_core/training_graph/transformer/moe/moe_layer.py",
    reads="model: extra; native; parallel: mode model_parallel use_seq_parallel",
    fails=[f"{MCORE} parallel.model_parallel=8", f"{LEGACY} parallel.model_parallel=2"],
    passes=[f"{MCORE} parallel.model_parallel=8 parallel.use_seq_parallel=true", MCORE],
)
def experts_sequence_parallel(d: Derived) -> Iterator[Problem]:
    """Experts and tensor parallelism without sequence parallelism."""
    p = d.config.parallel
    if experts_of(d) and p.mode in SHARDED and p.model_parallel > 1 and not p.use_seq_parallel:
        yield Problem(
            f"{experts_of(d)} experts with parallel.model_parallel={p.model_parallel} and use_seq_parallel=false",
            ("parallel.use_seq_parallel", "parallel.model_parallel"),
            "parallel.use_seq_parallel=true",
        )
