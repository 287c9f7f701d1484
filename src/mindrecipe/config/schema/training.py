"""The training itself: precision, optimizer, schedule, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mindrecipe.config.schema.knob import knob

DTYPES = ("float16", "bfloat16", "float32")
SCHEDULES = (
    "constant",
    "constant_cooldown",
    "linear",
    "cosine",
    "cosine_restarts",
    "polynomial",
    "wsd",
    "cosine_annealing",
    "cosine_annealing_restarts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmpConfig:
    """Mixed precision as a map level x dtype -> dtypes; each null dtype is filled from the map (derive/precision.py)."""

    level: str = knob(
        "O0", "O0: all fp32; O1: half where it is safe; O2: half except a black list; O3: all half.", choices=("O0", "O1", "O2", "O3")
    )
    dtype: str = knob(
        "auto", "Half precision type; auto: bfloat16 where the device has it, else float16.", choices=("auto", "float16", "bfloat16")
    )
    compute_dtype: str | None = knob(None, "Matrix multiplications.", choices=DTYPES)
    param_dtype: str | None = knob(None, "Parameters.", choices=DTYPES)
    layernorm_dtype: str | None = knob(None, "Normalisation layers.", choices=DTYPES)
    softmax_dtype: str | None = knob(None, "Attention softmax.", choices=DTYPES)
    rotary_dtype: str | None = knob(None, "Rotary position embedding.", choices=DTYPES)
    loss_scale: str = knob(
        "auto", "auto: dynamic for float16, none otherwise; dynamic; fixed; none.", choices=("auto", "dynamic", "fixed", "none")
    )
    loss_scale_value: float = knob(65536.0, "First (dynamic) or only (fixed) loss scale.", gt=0)
    loss_scale_factor: int = knob(2, "Factor a dynamic scale grows and shrinks by.", ge=2)
    loss_scale_window: int = knob(1000, "Steps without overflow before a dynamic scale grows.", unit="steps", ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerConfig:
    """The optimizer, by its name in mindformers' registry."""

    type: str = knob("AdamW", "AdamW, Came, PmaAdamW, any optimizer of mindspore.nn, or one of yours (run.imports).")
    learning_rate: float = knob(3.0e-4, "Peak learning rate.", gt=0)
    weight_decay: float = knob(0.1, "Decoupled weight decay.", ge=0)
    betas: list[float] | None = knob(None, "Decay of Adam's moments; null: [0.9, 0.95] for optimizers that have them.")
    eps: float | None = knob(None, "Adam's epsilon; null: 1e-8 for optimizers that have one.", gt=0)
    grad_clip: float | None = knob(1.0, "Largest global gradient norm; null: no clipping.", gt=0)
    extra: dict[str, Any] = knob(factory=dict, doc="Further arguments of the optimizer, passed through as they are.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """The learning rate over steps, and how many steps there are."""

    type: str = knob("cosine", "Shape of the learning rate, or the name of a schedule of yours (run.imports).")
    total_steps: int | None = knob(None, "Steps after which the run ends; null: epochs over the data set.", unit="steps", ge=1)
    epochs: int = knob(1, "Passes over the data when total_steps is null.", ge=1)
    warmup_steps: int | None = knob(None, "Steps of linear warm-up; null: warmup_ratio.", unit="steps", ge=0)
    warmup_ratio: float = knob(0.0, "Share of total_steps that warms up when warmup_steps is null.", ge=0, le=1)
    warmup_lr_init: float = knob(0.0, "Learning rate the warm-up starts at.", ge=0)
    lr_end: float = knob(0.0, "Learning rate at the end.", ge=0)
    decay_steps: int | None = knob(None, "wsd, constant_cooldown: steps of the final decay; null: decay_ratio.", unit="steps", ge=1)
    decay_ratio: float = knob(0.1, "wsd, constant_cooldown: share of total_steps that decays when decay_steps is null.", gt=0, le=1)
    num_cycles: float = knob(0.5, "cosine: half a wave is 0.5; cosine_restarts: number of restarts.", gt=0)
    power: float = knob(1.0, "polynomial: exponent.", gt=0)
    extra: dict[str, Any] = knob(factory=dict, doc="Further arguments of the schedule, passed through as they are.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """What is saved, when, and what a run starts from."""

    save_steps: int | None = knob(None, "Steps between checkpoints; null with save_minutes null: only at the end.", unit="steps", ge=1)
    save_minutes: float | None = knob(None, "Minutes between checkpoints, instead of save_steps.", unit="minutes", gt=0, le=525600)
    save_final: bool = knob(True, "Save a checkpoint when the run ends.")
    keep: int = knob(5, "Checkpoints kept; older ones are deleted.", ge=1)
    format: str | None = knob(
        None, "File format; null: ckpt for legacy models, safetensors for mcore ones.", choices=("ckpt", "safetensors")
    )
    style: str | None = knob(
        None,
        "Where mindformers is told: in its callback, or in its section `checkpoint`; null: callback for ckpt, section otherwise.",
        choices=("callback", "section"),
    )
    async_save: bool = knob(False, "Write in the background.")
    resume: str = knob(
        "never",
        "never; auto: the newest checkpoint of run.dir (else of run.name) if there is one; must: the same, or an error; a step; or a path.",
    )
    load: str | None = knob(None, "Weights to start from (file or folder); optimizer and step start afresh.")
    strict: bool = knob(True, "Refuse a checkpoint of another model, batch size, number of ranks or data set.")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateConfig:
    """The evaluation on held-out text when training ends."""

    at_end: bool = knob(True, "Evaluate held-out loss and perplexity at the end.")
    max_batches: int | None = knob(64, "Batches evaluated at the most; null: all of the held-out split.", ge=1)
