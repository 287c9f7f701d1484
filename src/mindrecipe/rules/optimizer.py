"""Rules of the optimizer: names that exist, and arguments that its class takes."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.config.keys import nearest_word
from mindrecipe.derive import Derived
from mindrecipe.lower import parts
from mindrecipe.rules.native import section
from mindrecipe.rules.registry import TINY, Problem, rule
from mindrecipe.rules.unknown import unlike

#: take ``betas`` as a pair
BETAS = ("AdamW", "PmaAdamW")
#: take one number ``eps`` (Came and AdaFactor take several: optimizer.extra.eps)
EPS = (*BETAS, "Adam", "adam", "AdamWeightDecay", "AdamOffload", "AdaMax", "Lamb", "LazyAdam")
#: arguments without which the class does not build, as overrides
NEEDS = {
    "Momentum": "optimizer.extra.momentum=0.9",
    "AdaFactor": "optimizer.extra.relative_step=false",
    "adafactor": "optimizer.extra.relative_step=false",
}
#: optimizers mindformers 1.9.0 registers, and those of mindspore.nn 2.9.0 that it registers with them; without FTRL, which takes
#: no learning rate schedule, LARS, which wraps another optimizer, and Muon (below). The fused ones are not registered:
#: optimizer.extra.use_fused
OPTIMIZERS = tuple(parts.OPTIMIZERS)


@rule(
    "optimizer.name",
    "error",
    "mindformers finds no class of that name, or none that takes a schedule, after the ranks have started",
    outcome="stops",
    source="mindformers core/optim (its registry)",
    reads="optimizer: type; run: imports",
    fails=[f"{TINY} optimizer.type=adamw", f"{TINY} optimizer.type=LARS"],
    passes=[
        f"{TINY} optimizer.type=my_optimizer run.imports=[my_package]",
        f"{TINY} optimizer.type=AdamW",
        f"{TINY} optimizer.type=Lamb",
    ],
)
def name(d: Derived) -> Iterator[Problem]:
    """There is no optimizer of that name that takes a schedule."""
    given = d.config.optimizer.type
    if given not in (*OPTIMIZERS, "Muon") and not d.config.run.imports:
        near = nearest_word(given, OPTIMIZERS, 1)
        yield Problem(
            f"optimizer.type={given} is not an optimizer of mindformers or mindspore.nn that can be used here",
            ("optimizer.type",),
            f"optimizer.type={near[0] if near else 'AdamW'}; one of yours: run.imports=[your_module]",
        )


@rule(
    "optimizer.muon",
    "error",
    "mindformers' Muon refuses models without multi-latent attention, after the model is built",
    outcome="stops",
    source="mindformers core/optim/muon.py _verify_model",
    reads="optimizer: type",
    fails=["+model=qwen3_tiny optimizer.type=Muon"],
    passes=["+model=qwen3_tiny optimizer.type=AdamW"],
)
def muon(d: Derived) -> Iterator[Problem]:
    """Muon is to train a model without multi-latent attention."""
    if d.config.optimizer.type == "Muon":
        yield Problem(f"optimizer.type=Muon with {d.family.name}", ("optimizer.type",), "optimizer.type=AdamW")


@rule(
    "optimizer.arguments",
    "error",
    "mindformers hands them to the optimizer's class, which does not build so: the ranks stop after the model is built",
    outcome="stops",
    source="run: mindformers core/optim/build_optim.py with each registered class",
    reads="native; optimizer: betas eps extra type",
    fails=[
        f"{TINY} optimizer=sgd optimizer.betas=[0.9,0.95]",
        "+model=llama2_7b parallel=semi_auto optimizer=came optimizer.eps=1e-8",
        f"{TINY} optimizer.betas=[0.9]",
        f"{TINY} optimizer.betas=[0.9,1.5]",
        f"{TINY} optimizer.type=Momentum",
        f"{TINY} optimizer.type=AdaFactor",
        f"{TINY} optimizer.extra.amsgrad=true",
        f"{TINY} native.optimizer.weigth_decay=0.1",
    ],
    passes=[
        f"{TINY} optimizer.extra.amsgrad=true optimizer.extra.use_fused=true",
        f"{TINY} optimizer.type=Momentum optimizer.extra.momentum=0.9",
        f"{TINY} optimizer=sgd optimizer.betas=null",
        "+model=llama2_7b parallel=semi_auto optimizer=came optimizer.eps=null",
    ],
)
def arguments(d: Derived) -> Iterator[Problem]:
    """The optimizer's class takes no such argument, or needs one that is not given."""
    o = d.config.optimizer
    if o.type not in OPTIMIZERS:
        return
    if o.betas is not None and o.type not in BETAS:
        yield Problem(f"optimizer.betas has no place in {o.type}", ("optimizer.betas",), "optimizer.betas=null")
    if o.eps is not None and o.type not in EPS:
        yield Problem(f"optimizer.eps has no place in {o.type}", ("optimizer.eps",), "optimizer.eps=null")
    if o.betas is not None and (len(o.betas) != 2 or not all(0 < beta < 1 for beta in o.betas)):
        yield Problem(
            f"optimizer.betas={o.betas} must be two numbers between 0 and 1", ("optimizer.betas",), "'optimizer.betas=[0.9,0.95]'"
        )
    needed = NEEDS.get(o.type)
    if needed and needed.partition("=")[0].removeprefix("optimizer.extra.") not in o.extra:
        yield Problem(f"{o.type} needs {needed.partition('=')[0]}", ("optimizer.type",), needed)
    fused = parts.FUSED if o.extra.get("use_fused") else set()
    known = {"type", "learning_rate", *parts.OPTIMIZERS[o.type], *fused}
    what = f"{o.type} has no such argument"
    yield from unlike("optimizer.extra", o.extra, known, what, prefix="")
    native = section(d.config.native, "optimizer")
    if native.get("type", o.type) == o.type:
        yield from unlike("optimizer", native, known, what)


@rule(
    "optimizer.learning_rate",
    "warning",
    "Adam moves every weight by about the learning rate at each step, and weights begin at about init_std",
    outcome="costs",
    source="run: lr 1e9 gives a loss of NaN at the second step and exit code 0; mindocr issue 670",
    reads="optimizer: learning_rate type",
    fails=[f"{TINY} optimizer.learning_rate=1e9", f"{TINY} optimizer.learning_rate=0.5"],
    passes=[f"{TINY} optimizer.learning_rate=0.05", f"{TINY} optimizer=sgd optimizer.learning_rate=0.5"],
)
def learning_rate(d: Derived) -> Iterator[Problem]:
    """The peak learning rate of an Adam is 0.1 or more."""
    o = d.config.optimizer
    if "Adam" in o.type and o.learning_rate >= 0.1:
        key = "optimizer.learning_rate"
        yield Problem(f"{key}={o.learning_rate:g} with {o.type}", (key,), f"{key}=0.001")


@rule(
    "optimizer.came_cpu",
    "error",
    "its FusedAdaFactor kernel fails at the first step on CPU: the address size of 'epsilon' must be 8, but got 12",
    outcome="stops",
    source="run: llama2_tiny and qwen3_tiny with optimizer=came on CPU",
    reads="optimizer: type",
    fails=[f"{TINY} optimizer=came"],
    passes=[f"{TINY} optimizer=adamw"],
)
def came_cpu(d: Derived) -> Iterator[Problem]:
    """Came is to run on CPU."""
    if d.config.optimizer.type == "Came" and d.hardware.target == "CPU":
        yield Problem("optimizer=came can't run on CPU", ("optimizer.type",), "optimizer=adamw")


@rule(
    "optimizer.half_sgd",
    "error",
    "its weight decay adds a fp32 number to a half parameter: 'For primitive[AddN], the input type must be same'",
    outcome="stops",
    source="run: llama2_tiny and qwen3_tiny with optimizer=sgd amp=O3 on CPU",
    reads="amp: param_dtype; optimizer: type",
    fails=[f"{TINY} optimizer=sgd amp=O3"],
    passes=[f"{TINY} optimizer=sgd amp=O3 amp.param_dtype=float32"],
)
def half_sgd(d: Derived) -> Iterator[Problem]:
    """SGD is to update half parameters."""
    if d.config.optimizer.type.lower() == "sgd" and d.config.amp.param_dtype != "float32":
        yield Problem(
            f"optimizer=sgd with {d.config.amp.param_dtype} parameters", ("optimizer.type", "amp.param_dtype"), "amp.param_dtype=float32"
        )
