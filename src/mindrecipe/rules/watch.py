"""Rules of watchers whose action must be possible inside the step."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.rules.native import section
from mindrecipe.rules.registry import LARGE, TINY, Problem, rule


@rule(
    "watch.skip",
    "error",
    "mindformers' step compares the norm that clipping computes with one number",
    outcome="stops",
    source="mindformers wrapper/wrapper.py MFTrainOneStepCell (use_skip_data_by_global_norm)",
    reads="optimizer: grad_clip; watch: grad_norm_limit grad_spike",
    fails=[f"{TINY} watch.grad_spike=skip", f"{TINY} watch.grad_spike=skip watch.grad_norm_limit=3 optimizer.grad_clip=null"],
    passes=[f"{TINY} watch.grad_spike=skip watch.grad_norm_limit=3", TINY],
)
def skip(d: Derived) -> Iterator[Problem]:
    """Spikes of the gradient norm are to be skipped, and there is no limit, or nothing is clipped."""
    watch = d.config.watch
    if watch.grad_spike != "skip":
        return
    if watch.grad_norm_limit is None:
        keys = ("watch.grad_spike", "watch.grad_norm_limit")
        yield Problem("watch.grad_spike=skip without watch.grad_norm_limit", keys, "watch.grad_norm_limit=10")
    if d.config.optimizer.grad_clip is None:
        yield Problem("watch.grad_spike=skip without clipping", ("watch.grad_spike", "optimizer.grad_clip"), "optimizer.grad_clip=1")


@rule(
    "watch.loss_skip",
    "error",
    "the step is gated by the norm that clipping computes, and must know the whole loss before the update",
    outcome="stops",
    source="mindrecipe worker/loss_gate.py; mindformers wrapper/wrapper.py MFTrainOneStepCell",
    reads="native; optimizer: grad_clip; parallel: mode; watch: loss_spike",
    fails=[
        f"{TINY} watch.loss_spike=skip optimizer.grad_clip=null",
        f"{LARGE} watch.loss_spike=skip",
        "+model=llama2_7b device=ascend_910b watch.loss_spike=skip native.runner_config.sink_size=2",
    ],
    passes=[f"{TINY} watch.loss_spike=skip", f"{TINY} watch.loss_spike=skip parallel=data launch.workers=2"],
)
def loss_skip(d: Derived) -> Iterator[Problem]:
    """Updates of steps with a loss spike are to be skipped, and nothing is clipped, or the model is split."""
    if d.config.watch.loss_spike != "skip":
        return
    if d.config.optimizer.grad_clip is None:
        yield Problem("watch.loss_spike=skip without clipping", ("watch.loss_spike", "optimizer.grad_clip"), "optimizer.grad_clip=1")
    mode = d.config.parallel.mode
    if mode not in ("standalone", "data_parallel"):
        keys = ("watch.loss_spike", "parallel.mode")
        yield Problem(f"watch.loss_spike=skip with parallel.mode={mode}", keys, "watch.loss_spike=roll_back")
    size = section(d.config.native, "runner_config").get("sink_size", 1)
    if type(size) is int and size > 1:
        key = "native.runner_config.sink_size"
        yield Problem(f"watch.loss_spike=skip with {key}={size}: the limit follows the losses of single steps", (key,), f"{key}=1")
