"""The lowered YAML against the real mindformers: loaded, its schedules, optimizers, cells, callbacks and models built. No training."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mends import LARGE, TINY, quick
from mindrecipe.data.spec import DataFacts
from mindrecipe.freeze import to_yaml
from mindrecipe.lower.outside import environment
from mindrecipe.paths import shipped
from mindrecipe.rules.optimizer import BETAS, EPS, NEEDS, OPTIMIZERS

pytestmark = pytest.mark.e2e
PROBE = Path(__file__).with_name("probe.py")
RECIPES = sorted(path.relative_to(shipped("recipes")).with_suffix("").as_posix() for path in shipped("recipes").rglob("*.yaml"))
CLUSTER = (*LARGE, "launch.nodes=1", "launch.devices_per_node=8")
NPU = "device=ascend_910b"
FACTS = DataFacts(
    train_files=("/data/train.mindrecord",), heldout_files=(), columns=("input_ids",), train_rows=100_000, heldout_rows=0, train_tokens=1,
    heldout_tokens=0, unigram_entropy=None, fingerprint="f",
)  # fmt: skip
#: what mindformers prints of sections that a training YAML need not have
EMPTY = {f"The input config {name} is empty." for name in ("moe_config", "swap_config", "metric", "monitor_config")}


class Probe:
    """Collects jobs while tests are set up, asks mindformers once, and answers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.jobs, self.answers = folder, [], []  # type: ignore[var-annotated]

    def add(self, what: str, overrides: tuple[str, ...], **more: Any) -> int:
        path = self.folder / f"{len(self.jobs)}.yaml"
        path.write_text(to_yaml(quick(*overrides).with_dataset(FACTS).lower()), encoding="utf-8")
        self.jobs.append({"what": what, "path": str(path), **more})
        return len(self.jobs) - 1

    def run(self) -> None:
        jobs, answers = self.folder / "jobs.json", self.folder / "answers.json"
        jobs.write_text(json.dumps(self.jobs), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(PROBE), str(jobs), str(answers)], capture_output=True, text=True, timeout=580, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        self.answers = json.loads(answers.read_text(encoding="utf-8"))


Ask = Callable[..., Any]
_ASKED: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}


def asked(what: str, *overrides: str, **more: Any) -> tuple[str, tuple[str, ...]]:
    """A question to mindformers, put down while this module is imported; the tests look up its answer."""
    _ASKED[what, overrides] = more
    return what, overrides


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, tuple[str, ...]]], Any]:
    """The answers to all questions, from one process."""
    probe = Probe(tmp_path_factory.mktemp("probe"))
    numbers = {key: probe.add(key[0], key[1], **more) for key, more in _ASKED.items()}
    probe.run()
    return lambda key: probe.answers[numbers[key]]


def fine(found: Any) -> Any:
    assert not (isinstance(found, dict) and "error" in found), found
    return found


# --- loading

LOADED = [
    *(asked("load", f"+recipe={name}") for name in RECIPES),
    asked("load", *CLUSTER),
    asked("load", TINY, "parallel=data", "launch.workers=2", "amp=O2", "profile=steps", "recompute=selective", "checkpoint=minutes"),
    asked("load", "+model=qwen3_8b", "parallel=semi_auto", "amp=O2", "parallel.full_batch=false", "recompute=full"),
    asked(
        "load",
        *CLUSTER,
        "parallel.pipeline_stage=2",
        "parallel.micro_batch_num=4",
        "parallel.context_parallel=2",
        "memory.mempool_block_size=1GB",
    ),
]


@pytest.mark.parametrize("question", LOADED, ids=[" ".join(overrides)[:60] for _, overrides in LOADED])
def test_stock_mindformers_loads_it_without_a_word_about_our_keys(question: Any, answer: Ask) -> None:
    found = fine(answer(question))
    native = quick(*question[1]).with_dataset(FACTS).lower()
    # neither is in mindformers' template, and its trainer reads both (trainer.py: config.profiler_level, config.checkpoint)
    beside = [key for key in native if key in ("checkpoint", "profiler_level")]
    useless = {f"Some configs in yaml are useless for train: {beside}"} if beside else set()
    standalone = {"The input config parallel is empty."} if "parallel" not in native else set()
    assert set(found["said"]) <= EMPTY | useless | standalone
    for section in ("context", "parallel_config", "recompute_config", "optimizer", *(["parallel"] if "parallel" in native else [])):
        for key, value in native[section].items():
            assert found[section][key] == value, (section, key)


# --- parallel context

CONTEXTS = [
    asked("parallel", *CLUSTER),
    asked("parallel", *CLUSTER, "parallel.full_batch=false", "parallel.optimizer_weight_shard_size=2"),
    asked("parallel", "+recipe=llama2_70b_pretrain_64x64g"),
    asked("parallel", *CLUSTER, "parallel=auto", "parallel.search_mode=dynamic_programming", "parallel.enable_alltoall=true"),
    asked("parallel", *CLUSTER, "parallel.pipeline_stage=2", "parallel.micro_batch_num=4", "parallel.pipeline_interleave=2"),
    *(
        asked(
            "parallel",
            *CLUSTER,
            "parallel.pipeline_stage=2",
            "parallel.micro_batch_num=4",
            "parallel.seq_split_num=2",
            f"parallel.pipeline_scheduler={name}",
        )
        for name in ("gpipe", "1f1b", "seqpipe", "seqvpp", "seqsmartvpp", "zero_bubble_v")
    ),
]


@pytest.mark.parametrize("question", CONTEXTS, ids=range(len(CONTEXTS)))
def test_mindspore_takes_every_key_of_parallel(question: Any, answer: Ask) -> None:
    """set_auto_parallel_context raises for a key it does not know."""
    found = fine(answer(question))
    written = set(quick(*question[1]).with_dataset(FACTS).lower()["parallel"]) - {"parallel_mode"}
    assert written <= set(found)


# --- learning rates

T, W, PEAK, END = 100, 10, 3e-3, 3e-4
_LR = (TINY, f"schedule.total_steps={T}", "schedule.warmup_steps=10", f"optimizer.learning_rate={PEAK}")
_NO_WARMUP = (TINY, f"schedule.total_steps={T}", "schedule.warmup_steps=0", f"optimizer.learning_rate={PEAK}", f"schedule.lr_end={END}")
STEPS = [0, 1, 5, 9, 10, 11, 30, 55, 79, 80, 90, 99, 100]


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def _warm(step: int, after: Callable[[int], float], start: float = 0.0) -> float:
    return start + (PEAK - start) * step / W if step < W else after(step)


CURVES: list[tuple[Any, Callable[[int], float]]] = [
    (asked("lr", *_LR, "schedule=constant", steps=STEPS), lambda s: _warm(s, lambda _: PEAK)),
    (asked("lr", *_LR, "schedule=constant", "schedule.warmup_lr_init=0.001", steps=STEPS), lambda s: _warm(s, lambda _: PEAK, 0.001)),
    (asked("lr", *_LR, "schedule=linear", steps=STEPS), lambda s: _warm(s, lambda t: PEAK * (T - t) / (T - W))),
    (
        asked("lr", *_LR, "schedule=cosine", f"schedule.lr_end={END}", steps=STEPS),
        lambda s: _warm(s, lambda t: END + (PEAK - END) * _cosine((t - W) / (T - W))),
    ),
    (
        asked("lr", *_LR, "schedule=cosine_restarts", "schedule.num_cycles=2", f"schedule.lr_end={END}", steps=STEPS),
        lambda s: _warm(s, lambda t: END if t >= T else END + (PEAK - END) * _cosine(2 * (t - W) / (T - W) % 1)),
    ),
    (
        asked("lr", *_LR, "schedule=polynomial", "schedule.power=2", f"schedule.lr_end={END}", steps=STEPS),
        lambda s: _warm(s, lambda t: END + (PEAK - END) * (1 - (t - W) / (T - W)) ** 2),
    ),
    (
        asked("lr", *_LR, "schedule=wsd", "schedule.decay_ratio=0.2", f"schedule.lr_end={END}", steps=STEPS),
        lambda s: _warm(s, lambda t: PEAK if t < 80 else PEAK - (PEAK - END) * (t - 80) / 20),
    ),
    (
        asked("lr", *_LR, "schedule=constant_cooldown", "schedule.decay_steps=20", f"schedule.lr_end={END}", steps=STEPS),
        lambda s: _warm(s, lambda t: PEAK if t < 80 else END + (PEAK - END) * _cosine((t - 80) / 20)),
    ),
    (asked("lr", *_NO_WARMUP, "schedule=cosine_annealing", steps=STEPS), lambda s: END + (PEAK - END) * _cosine(s / T)),
    (
        asked("lr", *_NO_WARMUP, "schedule=cosine_annealing_restarts", "schedule.num_cycles=3", steps=STEPS),
        lambda s: END + (PEAK - END) * _cosine(s % 34 / 34),
    ),
    # the defaults of the option files
    (asked("lr", *_LR, "schedule=cosine_restarts", steps=STEPS), lambda s: _warm(s, lambda t: 0.0 if t >= T else PEAK * _cosine(2 * (t - W) / (T - W) % 1))),
    (asked("lr", *_LR, "schedule=wsd", steps=STEPS), lambda s: _warm(s, lambda t: PEAK if t < 90 else PEAK * (100 - t) / 10)),
]  # fmt: skip


@pytest.mark.parametrize("question, curve", CURVES, ids=[" ".join(question[1][4:]) for question, _ in CURVES])
def test_learning_rates(question: Any, curve: Callable[[int], float], answer: Ask) -> None:
    found = fine(answer(question))
    for step, rate in zip(STEPS, found, strict=True):
        assert rate == pytest.approx(curve(step), rel=2e-5, abs=1e-9), step
    if "schedule.warmup_steps=10" in question[1]:
        assert found[STEPS.index(W)] == pytest.approx(PEAK), "the peak is at the end of the warm-up"


def test_every_schedule_is_drawn() -> None:
    drawn = {word.partition("=")[2] for question, _ in CURVES for word in question[1] if word.startswith("schedule=")}
    assert drawn == {path.stem for path in (shipped("conf") / "schedule").glob("*.yaml")}


NAN = asked("lr", TINY, "schedule=wsd", "schedule.warmup_steps=0", steps=[0, 1])


def test_why_wsd_needs_a_warm_up(answer: Ask) -> None:
    """The rule schedule.wsd_warmup: should mindformers mend it, the rule can go."""
    first, second = fine(answer(NAN))
    assert math.isnan(first) and second > 0


# --- optimizers

_WITH = {name: () if name not in NEEDS else (NEEDS[name],) for name in OPTIMIZERS}
MADE = {name: asked("optimizer", TINY, f"optimizer.type={name}", *_WITH[name]) for name in OPTIMIZERS if name != "Muon"}
OPTIONS = {path.stem: asked("optimizer", TINY, f"optimizer={path.stem}") for path in sorted((shipped("conf") / "optimizer").glob("*.yaml"))}
MCORE = {
    path.stem: asked("optimizer", "+model=qwen3_tiny", f"optimizer={path.stem}")
    for path in sorted((shipped("conf") / "optimizer").glob("*.yaml"))
}
BETA = {name: asked("optimizer", TINY, f"optimizer.type={name}", "optimizer.betas=[0.8,0.9]", *_WITH[name]) for name in MADE}
EPSILON = {name: asked("optimizer", TINY, f"optimizer.type={name}", "optimizer.eps=1e-6", *_WITH[name]) for name in MADE}
REFUSED = {
    "Muon": asked("optimizer", "+model=qwen3_tiny", "optimizer.type=Muon"),
    "FTRL": asked("optimizer", TINY, "optimizer.type=FTRL"),
    "LARS": asked("optimizer", TINY, "optimizer.type=LARS"),
    **{name: asked("optimizer", TINY, f"optimizer.type={name}") for name in NEEDS},
}


@pytest.mark.parametrize(
    "question", [*MADE.values(), *OPTIONS.values(), *MCORE.values()], ids=[*MADE, *OPTIONS, *(f"mcore-{name}" for name in MCORE)]
)
def test_every_optimizer_builds(question: Any, answer: Ask) -> None:
    assert isinstance(fine(answer(question)), str)


@pytest.mark.parametrize("name", MADE)
def test_what_takes_betas_and_eps(name: str, answer: Ask) -> None:
    """The rule optimizer.arguments says who takes them."""
    assert ("error" not in answer(BETA[name])) == (name in BETAS), answer(BETA[name])
    if name in EPS:
        fine(answer(EPSILON[name]))
    else:
        assert "error" in answer(EPSILON[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_rules_refuse_does_not_build(name: str, answer: Ask) -> None:
    assert "error" in answer(REFUSED[name])


# --- the step cell, callbacks

CELLS = {
    "dynamic": asked("wrapper", TINY, "amp=O2", "amp.loss_scale_window=7"),
    "fixed": asked("wrapper", TINY, "amp=O2", "amp.loss_scale=fixed", "amp.loss_scale_value=128"),
    "none": asked("wrapper", TINY, "optimizer.grad_clip=null"),
}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("dynamic", {"clips": True, "scale": 65536.0, "manager": "DynamicLossScaleUpdateCell", "window": 7}),
        ("fixed", {"clips": True, "scale": 128.0, "manager": "FixedLossScaleUpdateCell"}),
        ("none", {"clips": False, "scale": 1.0, "manager": None}),
    ],
)
def test_loss_scales(name: str, expected: dict[str, Any], answer: Ask) -> None:
    found = fine(answer(CELLS[name]))
    assert found["class"] == "MFTrainOneStepCell" and expected.items() <= found.items()


CALLED = {
    option: asked("callbacks", model, f"checkpoint={option}")
    for model, option in ((TINY, "final"), (TINY, "steps"), (TINY, "minutes"), (TINY, "off"), ("+model=qwen3_tiny", "steps"))
}


@pytest.mark.parametrize("option", CALLED)
def test_callbacks(option: str, answer: Ask) -> None:
    assert set(fine(answer(CALLED[option]))) == {"MFLossMonitor", "TrainCallBack"} | ({"CheckpointMonitor"} if option != "off" else set())


# --- models

_SMALL = ("model.num_layers=2", "model.vocab_size=1000")
BUILT = {
    name: asked("build", *overrides)
    for name, overrides in {
        "tiny": (TINY,),
        "7b": ("+model=llama2_7b", NPU),
        "13b": ("+model=llama2_13b", NPU),
        "70b": ("+model=llama2_70b", NPU),
        "gqa": (TINY, "model.num_kv_heads=2"),
        "tied": (TINY, "model.tie_word_embeddings=true"),
        "multiplier": (TINY, "model.ffn_dim_multiplier=1.3", "model.multiple_of=64"),
        "width": (TINY, "model.intermediate_size=100", "model.num_kv_heads=1"),
        "cluster": (*CLUSTER, *_SMALL),
        "half": (TINY, "amp=O3"),
        "qwen3-tiny": ("+model=qwen3_tiny",),
        "qwen3-8b": ("+model=qwen3_8b", NPU),
        "qwen3-32b": ("+model=qwen3_32b", NPU),
        "qwen3-tied": ("+model=qwen3_tiny", "model.tie_word_embeddings=true"),
        "qwen3-heads": ("+model=qwen3_tiny", "model.num_kv_heads=1", "model.head_dim=64", "model.intermediate_size=100"),
        "qwen3-half": ("+model=qwen3_tiny", "amp=O3"),
    }.items()
}


@pytest.mark.parametrize("name", BUILT)
def test_parameters_are_counted_exactly(name: str, answer: Ask) -> None:
    """No weight is initialised (no_init_parameters), so that 70 billion are counted in a second and no memory."""
    found = fine(answer(BUILT[name]))
    assert found["parameters"] == quick(*BUILT[name][1]).derived.parameters
    assert found["class"] == ("TrainingQwen3ForCausalLM" if "qwen3" in name else "LlamaForCausalLM")
    assert not [text for text in found["said"] if "not supported" in text or "will be changed" in text or "converted to False" in text]


# --- recomputation

RECOMPUTED = {
    "llama attention": asked("recompute", TINY, "recompute=attention"),
    "llama selective": asked("recompute", TINY, "recompute=selective"),
    "llama full": asked("recompute", TINY, "recompute=full"),
    "llama none": asked("recompute", TINY),
    "llama npu attention": asked("recompute", "+model=llama2_7b", NPU, "recompute=attention", *_SMALL),
    "llama npu selective": asked("recompute", "+model=llama2_7b", NPU, "recompute=selective", *_SMALL),
    "qwen3 attention": asked("recompute", "+model=qwen3_tiny", "recompute=attention"),
    "qwen3 selective": asked("recompute", "+model=qwen3_tiny", "recompute=selective"),
    "qwen3 full": asked("recompute", "+model=qwen3_tiny", "recompute=full"),
    "llama layers": asked("recompute", TINY, "recompute=per_stage", "recompute.layers=[3]"),
    "llama map": asked("recompute", TINY, "recompute=selective", r"recompute.patterns={feed_forward\.mul: [2], attention_norm: true}"),
}
_TWICE = asked("recompute", TINY, "recompute=attention", r"recompute.patterns=['attention\.softmax']")
_DOTS = asked("recompute", TINY, "recompute=selective", "recompute.patterns=[feed_forward.mul]")


@pytest.mark.parametrize(
    "name, said",
    [
        ("llama attention", "attention.merger_head_transpose"),
        ("llama selective", "feed_forward.mul, feed_forward.w1.activation.silu"),
        ("llama full", "Set full recompute"),
        ("llama npu attention", "attention.flash_attention"),
        ("llama npu selective", "feed_forward.mul, feed_forward.w1.activation.silu"),
        ("qwen3 attention", "self_attention.core_attention"),
        ("qwen3 selective", "mlp.mul, mlp.activation_func.silu"),
        ("qwen3 full", "Set full recompute"),
    ],
)
def test_patterns_select_operators_in_every_layer(name: str, said: str, answer: Ask) -> None:
    found = fine(answer(RECOMPUTED[name]))
    assert len(found) == quick(*RECOMPUTED[name][1]).config.model.num_layers
    assert all(said in line for line in found), found


def test_layers_and_maps(answer: Ask) -> None:
    assert fine(answer(RECOMPUTED["llama none"])) == []
    assert fine(answer(RECOMPUTED["llama layers"])) == [f"Set full recompute at layer {layer}" for layer in range(3)]
    found = fine(answer(RECOMPUTED["llama map"]))
    assert ["feed_forward.mul" in line for line in found] == [True, True, False, False]
    assert all("attention_norm" in line for line in found)


def test_why_some_patterns_are_refused(answer: Ask) -> None:
    """The rules recompute.twice and recompute.pattern_dots."""
    assert "'bool' object is not callable" in answer(_TWICE)["error"]
    assert fine(answer(_DOTS)) == []


# --- disks

_910C = ("+model=qwen3_8b", "parallel=semi_auto", "amp=O2", "device=ascend_910c")
_HOSTS = ("launch.nodes=2", "launch.master_addr=10.0.0.1")
_SAVES = {
    (words, given): asked("shared", *words, *(["run.name=told"] if given else []), ranks=quick(*words).derived.device_num,
                          variables=environment(quick(*words).derived, Path("output")) if given else {})
    for words in (_910C, (*_910C, *_HOSTS)) for given in (True, False)
}  # fmt: skip


@pytest.mark.parametrize(("words", "given"), _SAVES, ids=lambda word: str(word)[-40:])
def test_ranks_may_save_safetensors_of_sharded_weights(words: tuple[str, ...], given: bool, answer: Ask) -> None:
    """With what they are given; without it the first save of 16 devices of one host, and of two hosts on most shared disks, raises."""
    assert fine(answer(_SAVES[words, given])) is given
