"""What a native config must not say, because mindformers would accept it and train something else, or fail far from the cause.

The launcher lowers all of this rightly but for what ``native.*`` overrides say, which a rule finds before anything is started
(rules/traps.py); a rank makes sure of it once more, for hand-written YAML too, and says so instead of mending it in silence.
Each function is one trap: it takes what the YAML says and raises UserError with overrides that mend it. Figures behind them:
mindformers 1.9.0 on mindspore 2.9.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mindrecipe.errors import UserError

DATA_PARALLEL = (0, 3, "data_parallel", "hybrid_parallel", "DATA_PARALLEL", "HYBRID_PARALLEL")
SHARDED = (1, 2, "semi_auto_parallel", "auto_parallel", "SEMI_AUTO_PARALLEL", "AUTO_PARALLEL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """``native`` is the loaded mindformers config (any mapping), ``world`` the number of ranks."""

    native: Mapping[str, Any]
    world: int
    total_steps: int | None
    resumed_step: int
    resume_asked: bool

    def get(self, path: str, default: Any = None) -> Any:
        """Value at a dotted path; ``default`` where any part of it is absent or null."""
        value: Any = self.native
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return default if value is None else value

    @property
    def target(self) -> Any:
        """The device that mindformers takes: Ascend where none is said."""
        return self.get("context.device_target", "Ascend")

    @property
    def cpu(self) -> bool:
        return bool(self.target == "CPU")

    @property
    def callbacks(self) -> list[Mapping[str, Any]]:
        """Those that are written as mindformers reads them; of others the rule native.kind speaks, and mindformers stops at them."""
        given = self.get("callbacks", [])
        return [callback for callback in given if isinstance(callback, Mapping)] if isinstance(given, list) else []

    @property
    def legacy(self) -> bool:
        return bool(self.get("use_legacy", True))

    @property
    def several(self) -> bool:
        return bool(self.get("use_parallel", False))


def check(setting: Setting) -> None:
    """Raise UserError for the first trap that ``setting`` steps into."""
    for trap in TRAPS:
        trap(setting)


def sprung(setting: Setting) -> Iterator[tuple[str, UserError]]:
    """Every trap that ``setting`` steps into: its name, and what it raises."""
    for trap in TRAPS:
        try:
            trap(setting)
        except UserError as fault:
            yield trap.__name__, fault


def sink_mode(setting: Setting) -> None:
    """On CPU mindformers multiplies the epochs as if data were sunk, and mindspore then does not sink: 64 steps became 4096."""
    if not setting.get("runner_config.sink_mode", True):
        return
    if setting.cpu:
        raise UserError(
            "runner_config.sink_mode is on, which on CPU multiplies the number of epochs", mend="native.runner_config.sink_mode=false"
        )
    size, steps = setting.get("runner_config.sink_size", 1), (setting.total_steps or 0) - setting.resumed_step
    lost = steps % size if type(size) is int and size > 0 and steps > 0 else 0
    if lost:
        raise UserError(
            f"runner_config.sink_size={size} does not divide the {steps} steps: the last {lost} would not be trained",
            mend="native.runner_config.sink_size=1",
        )


def gradients_mean(setting: Setting) -> None:
    """In data parallel the default sums the ranks' gradients; clipping hides it (loss drift 2.4e-3 instead of 2.4e-7)."""
    if setting.several and setting.get("parallel.parallel_mode", 1) in DATA_PARALLEL and not setting.get("parallel.gradients_mean", False):
        raise UserError(
            "parallel.gradients_mean is off: data_parallel would sum the gradients of all ranks", mend="native.parallel.gradients_mean=true"
        )


def stop_step(setting: Setting) -> None:
    """runner_config.stop_step is read and dropped; TrainCallBack works, and counts from the resume on."""
    given = setting.get("runner_config.stop_step", 0)
    if given:
        raise UserError(
            f"runner_config.stop_step={given} has no effect in mindformers",
            mend=f"native.runner_config.stop_step=0 schedule.total_steps={given}",
        )
    if setting.total_steps is None:
        return
    remaining = setting.total_steps - setting.resumed_step
    if remaining < 1:
        raise UserError(
            f"nothing left to train: the checkpoint is at step {setting.resumed_step} of {setting.total_steps}",
            mend=f"schedule.total_steps={2 * setting.resumed_step}",
        )
    stops = [callback.get("stop_step") for callback in setting.callbacks if callback.get("type") == "TrainCallBack"]
    if stops != [remaining]:
        raise UserError(
            f"training is to end after {remaining} more steps ({setting.total_steps} - {setting.resumed_step}), "
            f"but TrainCallBack says {stops or 'nothing'}",
            mend=f"native.callbacks.TrainCallBack.stop_step={remaining}",
        )


def accumulation(setting: Setting) -> None:
    """Outside semi_auto and auto mindformers resets gradient accumulation to 1, with a warning in the log."""
    steps = setting.get("runner_config.gradient_accumulation_steps", 1)
    sharded = setting.several and setting.get("parallel.parallel_mode", 1) in SHARDED
    if isinstance(steps, int | float) and steps > 1 and not sharded:
        raise UserError(
            f"gradient_accumulation_steps is {steps}: mindformers accumulates only in semi_auto and auto parallel",
            mend="native.runner_config.gradient_accumulation_steps=1",
        )


def world(setting: Setting) -> None:
    """Several ranks without use_parallel train several models, each for itself."""
    if setting.world > 1 and not setting.several:
        raise UserError(f"{setting.world} ranks, but use_parallel is off: each would train alone", mend="native.use_parallel=true")


def resume(setting: Setting) -> None:
    """A resume that finds no checkpoint trains from scratch, with a warning in the log."""
    legacy = bool(setting.get("load_checkpoint", "")) and bool(setting.get("resume_training", False))
    section = bool(setting.get("checkpoint.load_path", "")) and not setting.get("checkpoint.no_load_optim", True)
    if setting.resume_asked and not (legacy or section):
        raise UserError("this run resumes, but mindformers.yaml names no checkpoint to resume from", mend="checkpoint.resume=must")
    if (legacy or section) and not setting.resume_asked:
        raise UserError(
            "mindformers.yaml resumes from a checkpoint, but nothing says at which step (checkpoint.resume does)",
            mend="native.resume_training=false" if legacy else "native.checkpoint.no_load_optim=true",
        )


def checkpoint_section(setting: Setting) -> None:
    """The section's layout describes how semi_auto and auto shard the weights; in data_parallel it fails at the first save."""
    data_parallel = setting.several and setting.get("parallel.parallel_mode", 1) in DATA_PARALLEL
    saves = any(callback.get("type") == "CheckpointMonitor" for callback in setting.callbacks)
    if setting.world > 1 and data_parallel and saves and setting.get("checkpoint"):
        raise UserError("the `checkpoint` section can not save in data_parallel", mend="checkpoint.style=callback")


def saving_by_the_clock(setting: Setting) -> None:
    """Every rank saves when its own clock says so: checkpoints of several ranks would be of different steps."""
    timed = [callback for callback in setting.callbacks if callback.get("save_checkpoint_seconds")]
    if timed and setting.world > 1:
        raise UserError(
            "checkpoints by the clock: the clocks of several ranks do not agree on a step",
            mend="checkpoint.save_minutes=null checkpoint.save_steps=500",
        )


def cpu_kernels(setting: Setting) -> None:
    """Kernels that only Ascend has: the compile error would come minutes later and name an operator, not a knob."""
    if not setting.cpu:
        return
    model = "model.model_config"
    if setting.legacy:
        _must(
            setting,
            f"{model}.use_rope_slice",
            default=False,
            must=True,
            why="the other rotary embedding needs a broadcast that BatchMatMul lacks on CPU",
        )
        _must(setting, f"{model}.fused_rms_norm", default=True, must=False, why="the RmsNorm kernel is Ascend's")
        _must(setting, f"{model}.use_flash_attention", default=False, must=False, why="the FlashAttentionScore kernel is Ascend's")
        return
    _must(setting, f"{model}.use_flash_attention", default=True, must=True, why="the portable attention takes the flash layout")
    for name in ("hidden_dropout", "attention_dropout"):
        _must(setting, f"{model}.{name}", default=0.0, must=0.0, why="the DropoutExt kernel is Ascend's")


def _must(setting: Setting, path: str, *, default: Any, must: Any, why: str) -> None:
    found = setting.get(path, default)
    if found != must:
        raise UserError(f"{path} is {found} on CPU: {why}", mend=f"native.{path}={str(must).lower()}")


TRAPS: tuple[Callable[[Setting], None], ...] = (
    sink_mode,
    gradients_mean,
    stop_step,
    accumulation,
    world,
    resume,
    checkpoint_section,
    saving_by_the_clock,
    cpu_kernels,
)
