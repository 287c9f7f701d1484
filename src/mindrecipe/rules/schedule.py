"""Rules of steps and the learning rate over them: names that exist, and arithmetic that ends where it says."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mindrecipe.config.keys import nearest_word
from mindrecipe.config.schema.training import SCHEDULES
from mindrecipe.derive import Derived
from mindrecipe.rules.registry import LARGE, STAGES, TINY, Example, Problem, rule


@rule(
    "schedule.name",
    "error",
    "mindformers finds no class of that name after the ranks have started",
    outcome="stops",
    source="mindformers core/lr/lr_schedule.py",
    reads="run: imports; schedule: type",
    fails=[f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.type=cosin"],
    passes=[
        f"{TINY} schedule.type=my_schedule run.imports=[my_package]",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.type=cosine",
    ],
)
def schedule_name(d: Derived) -> Iterator[Problem]:
    """There is no schedule of that name."""
    name = d.config.schedule.type
    if name not in SCHEDULES and not d.config.run.imports:
        near = nearest_word(name, SCHEDULES, 1)
        yield Problem(
            f"schedule.type={name} is not one of {', '.join(SCHEDULES)}",
            ("schedule.type",),
            f"schedule.type={near[0] if near else 'cosine'}; one of yours: run.imports=[your_module]",
        )


@rule(
    "schedule.warmup",
    "error",
    "the learning rate would never reach its peak",
    outcome="differs",
    source="mindformers core/lr/lr_schedule.py",
    reads="schedule: total_steps type warmup_steps",
    fails=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_steps=300",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_steps=null schedule.warmup_ratio=1",
    ],
    passes=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_steps=30",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_ratio=1 schedule.warmup_steps=30",
    ],
)
def warmup(d: Derived) -> Iterator[Problem]:
    """Warm-up takes all steps or more."""
    s = d.config.schedule
    if s.total_steps and s.warmup_steps and s.warmup_steps >= s.total_steps:
        yield Problem(
            f"schedule.warmup_steps={s.warmup_steps} is not below total_steps={s.total_steps}",
            ("schedule.warmup_steps", "schedule.warmup_ratio", "schedule.total_steps"),
            f"schedule.warmup_steps={max(s.total_steps // 10, 1 if s.type == 'wsd' and s.total_steps > 1 else 0)}",
        )


@rule(
    "schedule.lr_end",
    "error",
    "the learning rate would climb to its end",
    outcome="differs",
    source="run: lr_end 0.1 with a peak of 0.001, the rate climbs to 0.09 and the loss rises",
    reads="optimizer: learning_rate; schedule: lr_end type warmup_lr_init",
    fails=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.lr_end=0.1",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_lr_init=0.1",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=polynomial schedule.lr_end=0.003",
    ],
    passes=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.lr_end=0",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.warmup_lr_init=0",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=polynomial schedule.lr_end=0",
    ],
)
def lr_end(d: Derived) -> Iterator[Problem]:
    """The learning rate would end, or begin, above its peak."""
    peak = d.config.optimizer.learning_rate
    for key in ("lr_end", "warmup_lr_init"):
        if getattr(d.config.schedule, key) > peak:
            yield Problem(
                f"schedule.{key}={getattr(d.config.schedule, key):g} is above optimizer.learning_rate={peak:g}",
                (f"schedule.{key}", "optimizer.learning_rate"),
                f"schedule.{key}=0",
            )
    s = d.config.schedule
    if s.type in ("wsd", "polynomial") and s.lr_end == peak:
        yield Problem(
            f"schedule.lr_end={s.lr_end:g} must be below optimizer.learning_rate with schedule={s.type}",
            ("schedule.lr_end",),
            "schedule.lr_end=0",
        )


@rule(
    "schedule.wsd_warmup",
    "error",
    "mindformers divides by the step in the stable part: the first learning rate would be 0/0, and every weight NaN from then on",
    outcome="differs",
    source="mindformers core/lr/lr_schedule.py WarmUpStableDecayLR.construct (run)",
    reads="schedule: total_steps type warmup_steps",
    fails=[f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=wsd schedule.warmup_steps=0"],
    passes=[f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=wsd schedule.warmup_steps=1"],
)
def wsd_warmup(d: Derived) -> Iterator[Problem]:
    """wsd without warm-up."""
    s = d.config.schedule
    warms_up = s.warmup_steps > 0 if s.warmup_steps is not None else s.warmup_ratio > 0
    if s.type == "wsd" and not warms_up:
        rounds = d.written.schedule.warmup_steps is None and s.warmup_ratio > 0
        yield Problem(
            f"schedule=wsd: warmup_ratio={s.warmup_ratio:g} of total_steps={s.total_steps} is no step of warm-up"
            if rounds
            else "schedule=wsd without warm-up",
            # that the ratio is too small follows from the steps: those are to be looked at first
            ("schedule.total_steps", "schedule.type", "schedule.warmup_ratio")
            if rounds
            else ("schedule.warmup_steps", "schedule.warmup_ratio", "schedule.type"),
            "schedule=constant schedule.decay_steps=null" if s.total_steps == 1 else "schedule.warmup_steps=1",
        )


@rule(
    "schedule.decay",
    "error",
    "the final decay would begin before the warm-up ends",
    outcome="differs",
    source="mindformers core/lr/lr_schedule.py WarmUpStableDecayLR",
    reads="schedule: decay_ratio decay_steps total_steps type warmup_steps",
    fails=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=wsd schedule.decay_steps=299",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=constant_cooldown schedule.decay_ratio=1",
    ],
    passes=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=wsd schedule.decay_steps=279",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=constant_cooldown "
        "schedule.decay_ratio=1 schedule.decay_steps=279",
    ],
)
def decay(d: Derived) -> Iterator[Problem]:
    """Warm-up and final decay are longer than the run."""
    s = d.config.schedule
    if s.type not in ("wsd", "constant_cooldown") or s.total_steps is None:
        return
    steps = s.decay_steps or max(1, int(s.total_steps * s.decay_ratio))
    if (s.warmup_steps or 0) < s.total_steps < steps + (s.warmup_steps or 0):
        yield Problem(
            f"warm-up {s.warmup_steps} and decay {steps} are more than total_steps={s.total_steps}",
            ("schedule.decay_steps", "schedule.decay_ratio", "schedule.total_steps"),
            f"schedule.decay_steps={max(1, s.total_steps - (s.warmup_steps or 0))}",
        )


@rule(
    "schedule.unread",
    "error",
    "the schedule has no such argument and would ignore it",
    outcome="ignored",
    source="mindformers core/lr/lr_schedule.py, the constructors",
    reads="schedule: decay_steps lr_end num_cycles power type warmup_ratio warmup_steps",
    fails=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=linear schedule.lr_end=1e-5",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=cosine_annealing schedule.warmup_steps=3",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.decay_steps=3",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.power=2",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=linear schedule.num_cycles=2",
    ],
    passes=[
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=linear schedule.lr_end=0",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule=cosine_annealing "
        "schedule.warmup_steps=0 schedule.warmup_ratio=0",
        f"{TINY} schedule.total_steps=300 optimizer.learning_rate=0.003 schedule.decay_steps=null",
    ],
)
def unread(d: Derived) -> Iterator[Problem]:
    """An argument is given to a schedule that has none of that name."""
    s = d.config.schedule
    without_end = s.type in ("constant", "linear")
    without_warmup = s.type in ("cosine_annealing", "cosine_annealing_restarts")
    if without_end and s.lr_end > 0:
        yield Problem(f"schedule.lr_end={s.lr_end:g} has no effect with schedule={s.type}", ("schedule.lr_end",), "schedule.lr_end=0")
    if without_warmup and (s.warmup_steps or s.warmup_ratio):
        yield Problem(
            f"schedule={s.type} has no warm-up",
            ("schedule.warmup_steps", "schedule.warmup_ratio"),
            "schedule.warmup_steps=0 schedule.warmup_ratio=0",
        )
    for key, value, off, readers in (
        ("decay_steps", s.decay_steps, None, ("wsd", "constant_cooldown")),
        ("power", s.power, 1.0, ("polynomial",)),
        ("num_cycles", s.num_cycles, 0.5, ("cosine", "cosine_restarts", "cosine_annealing_restarts")),
    ):
        if value != off and s.type in SCHEDULES and s.type not in readers:
            yield Problem(
                f"schedule.{key}={value:g} has no effect with schedule={s.type}",
                (f"schedule.{key}",),
                f"schedule.{key}={'null' if off is None else off}",
            )


@rule(
    "schedule.no_steps",
    "error",
    "there would be nothing to train on",
    outcome="stops",
    source="run: 'There is no valid data in dataset'",
    reads="dataset: batch_size num_shards; parallel: pipeline_scheduler pipeline_stage",
    fails=[
        Example(f"{TINY} dataset.batch_size=64", rows=10),
        Example(f"{LARGE} parallel.gradient_accumulation_steps=8", rows=16),
        Example(f"{LARGE} dataset.batch_size=2 parallel.gradient_accumulation_steps=2", rows=16),
        Example(f"{STAGES} parallel.micro_batch_num=16", rows=9),
    ],
    passes=[Example(f"{TINY} dataset.batch_size=10", rows=10), Example(f"{LARGE} parallel.gradient_accumulation_steps=2", rows=16)],
)
def no_steps(d: Derived) -> Iterator[Problem]:
    """A rank's shard holds less than one batch."""
    if d.dataset is None or d.steps_per_epoch != 0:
        return
    batch, shards = d.batch, d.config.dataset.num_shards or d.batch.num_shards
    times = {"micro_batch_num": batch.micro_batch_num, "gradient_accumulation_steps": batch.gradient_accumulation_steps}
    of = "".join(f" with {name}={count}" for name, count in times.items() if count > 1)
    yield Problem(
        f"dataset.batch_size={d.config.dataset.batch_size}{of}: {d.dataset.train_rows} rows over {shards} shards are fewer "
        f"than the {batch.per_loader} that one step of a rank takes",
        ("dataset.batch_size", *(f"parallel.{name}" for name in times), "dataset.files"),
        _smaller_step(d, math.ceil(d.dataset.train_rows / shards), times),
    )


def _smaller_step(d: Derived, rows: int, times: dict[str, int]) -> str:
    """The largest batch that ``rows`` hold one step of; fewer of them a step where even batches of one are too many; else more data."""
    size, p = d.config.dataset.batch_size, d.config.parallel
    batches = d.batch.per_loader // size
    if batches <= rows:
        return f"dataset.batch_size={rows // batches}"
    for name, now in times.items():
        fewer = rows * now // batches // p.pipeline_stage * p.pipeline_stage
        if now > 1 and fewer >= p.pipeline_stage * (2 if p.pipeline_scheduler == "zero_bubble_v" else 1):
            return f"parallel.{name}={fewer}" + (" dataset.batch_size=1" if size > 1 else "")
    return "dataset.files=<more of them>; or fewer devices: launch.devices_per_node=<so many>"
