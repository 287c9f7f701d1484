"""What to try, as words that can be pasted behind ``train``: only such as change something of the run that they are for.

A mend is one or several steps, joined by "; then ". Each is either overrides, perhaps with a remark in brackets, or plain prose, in
which no override stands. config.yaml holds values whose nulls are filled, so that words name the value that acts and none that another
one hides: warm-up in steps, which win over its share of the run; the dtypes themselves beside amp.dtype.
"""

from __future__ import annotations

import re
from typing import Any

from mindrecipe.derive.mesh import SHARDED
from mindrecipe.judge.recorded import Recorded
from mindrecipe.models.hardware import CATALOGUE

_THEN = "; then "
_REMARK = re.compile(r"\s+\([^()]*\)$")
#: schedules of MindSpore's own, which do not warm up
_COLD = ("cosine_annealing", "cosine_annealing_restarts")
_WARM_UP = 0.1  # of the run
_FIRST_SCALE = 1024.0
HALF, FULL = "bfloat16", "float32"


def mend(*tries: str | None) -> str:
    """The steps that there are, first to last."""
    return _THEN.join(each for each in tries if each)


def steps_of(text: str) -> list[str]:
    """The steps of a mend, without their remarks."""
    return [_REMARK.sub("", each) for each in text.split(_THEN)]


def value(run: Recorded, key: str) -> Any:
    """A value of config.yaml; None where there is none."""
    found: Any = run.config
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def change(run: Recorded, **knobs: Any) -> str:
    """Overrides of those ``knobs`` (section__name) that the run does not have already; empty for none."""
    wanted = {name.replace("__", "."): given for name, given in knobs.items()}
    return " ".join(f"{key}={_written(given)}" for key, given in wanted.items() if value(run, key) != given)


def _written(given: Any) -> str:
    if given is None:
        return "null"
    return str(given).lower() if isinstance(given, bool) else f"{given:g}" if isinstance(given, float) else str(given)


def rate(run: Recorded, factor: float) -> str:
    """A learning rate ``factor`` times that of the run, on a warm-up of a tenth of it at the least where the schedule warms up."""
    known = float(value(run, "optimizer.learning_rate") or 0.0)
    words = f"optimizer.learning_rate={known * factor:g}" if known else ""
    total, now = int(run.derived.get("total_steps") or 0), int(run.derived.get("warmup_steps") or 0)
    longer = max(int(total * _WARM_UP), min(2 * now, total // 2))
    if factor < 1 and longer > now and value(run, "schedule.type") not in _COLD:
        words += f" schedule.warmup_steps={longer}"
    return words.strip()


def clip(run: Recorded, most: float) -> str:
    """Gradients clipped at ``most``, at half of what they are clipped at where that is less."""
    known = value(run, "optimizer.grad_clip")
    return f"optimizer.grad_clip={min(most, known / 2 if known else most):g}"


def calmer(run: Recorded) -> str:
    """Half the momentum of an optimizer that is given one: what it carries on pushes over the valley."""
    known = value(run, "optimizer.extra.momentum")
    return f"optimizer.extra.momentum={known / 2:g}" if isinstance(known, float) and known else ""


def safer(run: Recorded) -> str:
    """Softmax and normalisation in fp32, where they are float16."""
    names = [name for name in ("softmax_dtype", "layernorm_dtype") if value(run, f"amp.{name}") == "float16"]
    return " ".join(f"amp.{name}={FULL}" for name in names)


def wider(run: Recorded) -> str:
    """bfloat16 in the place of float16, where the device has it."""
    kind = CATALOGUE.get(str(run.derived.get("device")))
    amp = run.config.get("amp", {})
    names = [name for name in ("dtype", "compute_dtype", "param_dtype", "softmax_dtype", "rotary_dtype") if amp.get(name) == "float16"]
    return " ".join(f"amp.{name}={HALF}" for name in names) if kind is not None and kind.bfloat16 else ""


def rescaled(run: Recorded) -> str:
    """A dynamic loss scale that starts low; one that is dynamic already grows less often."""
    kind = (run.derived.get("loss_scale") or {}).get("kind")
    if kind == "dynamic":
        return f"amp.loss_scale_window={4 * int(value(run, 'amp.loss_scale_window') or 1000)}"
    return f"amp.loss_scale=dynamic amp.loss_scale_value={_FIRST_SCALE:g}"


def larger_batch(run: Recorded) -> str:
    """Twice the micro batch."""
    return f"dataset.batch_size={2 * int(value(run, 'dataset.batch_size') or 1)}"


def more_at_a_time(run: Recorded) -> str:
    """Twice the micro batches of an update, where mindformers sums them: the same communication of gradients for more work."""
    if value(run, "parallel.mode") not in SHARDED:
        return ""
    if int(value(run, "parallel.pipeline_stage") or 1) > 1:
        return f"parallel.micro_batch_num={2 * int(value(run, 'parallel.micro_batch_num') or 1)}"
    return f"parallel.gradient_accumulation_steps={2 * int(value(run, 'parallel.gradient_accumulation_steps') or 1)}"


def half_precision(run: Recorded) -> str:
    """amp=O2 on devices whose matrix units are made for half precision."""
    return "amp=O2" if value(run, "amp.level") == "O0" and run.derived.get("device_target") != "CPU" else ""


def profile(run: Recorded) -> str:
    """The profiler, where it was not on."""
    return "" if value(run, "profile.enabled") else "profile=steps (shows which operators take the time)"
