"""Rules of what this machine would bring into a run: variables that are set, packages that are installed."""

from __future__ import annotations

from collections.abc import Iterator

from mindrecipe.derive import Derived
from mindrecipe.lower.outside import PER_HOST
from mindrecipe.rules.registry import LARGE, TINY, Example, Problem, rule

#: variables that change what is trained -> how, and the value that does (null: any)
DANGEROUS: dict[str, tuple[str, str | None]] = {
    "RUN_MODE": ("mindformers builds its models for inference", "predict"),
    "MS_SIMULATION_LEVEL": ("MindSpore compiles and computes nothing", None),
    "MS_DEV_PRECOMPILE_ONLY": ("MindSpore compiles and runs nothing", "1"),
}
#: variables that act on a run though nothing of it says so -> how
SILENT = {
    "MS_DEV_SAVE_GRAPHS": "every graph is written to disk",
    "MS_DEV_GRAPH_KERNEL_FLAGS": "kernels are fused otherwise than the recipe says",
    "MS_PROFILER_OPTIONS": "the profiler runs, beside profile=steps",
    "MS_ENABLE_FORMAT_MODE": "tensors are laid out otherwise",
    PER_HOST: "mindformers counts devices of a host by it",
    "ASCEND_LAUNCH_BLOCKING": "every kernel is waited for",
}
_CACHE = ("MS_COMPILER_CACHE_ENABLE", "MS_COMPILER_CACHE_PATH")
#: variables that ranks do not inherit: of an outer job, which give a process its place in it, and of the compile cache
LEFT_OUT = (
    "MS_ROLE", "MS_NODE_ID", "MS_WORKER_NUM", "MS_SERVER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_TOPO_TIMEOUT", "RANK_ID", "RANK_SIZE",
    "RANK_TABLE_FILE", *_CACHE,
)  # fmt: skip
_SHELL = "the environment of this shell"
#: what this package was made for and tested with
VERSIONS = {"mindspore": "2.9.0", "mindformers": "1.9.0"}


@rule(
    "environment.dangerous",
    "error",
    "a rank inherits it",
    outcome="differs",
    source="mindformers tools/utils.py get_predict_run_mode; mindspore documentation, environment variables",
    reads="launch: env",
    fails=[Example(TINY, environment=("RUN_MODE=predict",)), Example(TINY, environment=("MS_SIMULATION_LEVEL=1",))],
    passes=[
        TINY,
        Example(TINY, environment=("RUN_MODE=train",)),
        Example(f"{TINY} launch.env.RUN_MODE=train", environment=("RUN_MODE=predict",)),
    ],
)
def dangerous(d: Derived) -> Iterator[Problem]:
    """A variable is set with which nothing is trained."""
    for name, (how, value) in DANGEROUS.items():
        found = d.machine.environment.get(name)
        if found and found != "0" and value in (None, found) and name not in d.config.launch.env:
            harmless = {"RUN_MODE": "train"}.get(name, "0")
            yield Problem(
                f"{name}={found} is set: {how}", (f"launch.env.{name}",), f"launch.env.{name}={harmless}; or unset {name}", where=_SHELL
            )


@rule(
    "environment.silent",
    "warning",
    "a rank inherits it, and nothing of the run says so",
    outcome="differs",
    source="mindspore documentation, environment variables",
    reads="launch: env",
    fails=[Example(TINY, environment=("MS_DEV_SAVE_GRAPHS=1",)), Example(TINY, environment=("DEVICE_NUM_PER_NODE=4",))],
    passes=[
        TINY,
        Example(f"{TINY} launch.env.MS_DEV_SAVE_GRAPHS=0", environment=("MS_DEV_SAVE_GRAPHS=1",)),
        Example(LARGE, environment=("DEVICE_NUM_PER_NODE=4",)),  # ranks get the job's own
    ],
)
def silent(d: Derived) -> Iterator[Problem]:
    """A variable is set that changes a run though the recipe does not name it."""
    given = {*d.config.launch.env, *([PER_HOST] if d.hardware.target != "CPU" else [])}
    for name, how in SILENT.items():
        found = d.machine.environment.get(name)
        if found and found != "0" and name not in given:
            yield Problem(
                f"{name}={found} is set: {how}", (f"launch.env.{name}",), f"launch.env.{name}={found}; or unset {name}", where=_SHELL
            )


@rule(
    "environment.compile_cache",
    "warning",
    "the cache is keyed on source files, not on configuration: a graph of another learning rate or of fewer layers is taken without a word",
    outcome="differs",
    source="run: with a compile cache lr 1e-2 gave the losses of 1e-3, and two layers trained where three were asked for",
    reads="launch: env",
    fails=[f"{TINY} launch.env.MS_COMPILER_CACHE_ENABLE=1"],
    passes=[TINY, f"{TINY} launch.env.MS_COMPILER_CACHE_ENABLE=0", f"{TINY} launch.env.MS_COMPILER_CACHE_PATH=cache"],
)
def compile_cache(d: Derived) -> Iterator[Problem]:
    """MindSpore's compile cache is asked for."""
    value = d.config.launch.env.get(_CACHE[0])
    if value is not None and str(value) != "0":
        key = f"launch.env.{_CACHE[0]}"
        yield Problem(f"{key}={value}: graphs of other configurations may be trained", (key,), f"{key}=null")


@rule(
    "environment.leftovers",
    "advice",
    "ranks do not get them: they are another job's, or of the compile cache, which takes graphs of other configurations",
    outcome="ignored",
    source="mindyolo issue 449: a cluster job's MS_ variables led workers to a scheduler that never came; launch/environment.py",
    reads="launch: env",
    fails=[Example(TINY, environment=("MS_SCHED_HOST=10.0.0.9", "RANK_ID=3")), Example(TINY, environment=("MS_COMPILER_CACHE_ENABLE=1",))],
    passes=[TINY],
)
def leftovers(d: Derived) -> Iterator[Problem]:
    """Variables are set that ranks do not inherit."""
    found = [name for name in LEFT_OUT if name in d.machine.environment and name not in d.config.launch.env]
    if found:
        yield Problem(
            f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} set",
            tuple(f"launch.env.{name}" for name in found),
            f"unset {' '.join(found)}",
            where=_SHELL,
        )


@rule(
    "environment.versions",
    "warning",
    "keys, checks and defaults of other versions differ from those that this package lowers to and knows the faults of",
    outcome="differs",
    source="mindformers VERSION_MAP.json: 1.9.0 goes with mindspore 2.9.0",
    reads="",
    fails=[Example(TINY, packages=(("mindspore", "2.7.0"),)), Example(TINY, packages=(("mindspore", "2.9.0"), ("mindformers", "1.6.0")))],
    passes=[TINY, Example(TINY, packages=(("mindspore", "2.9.0"), ("mindformers", "1.9.0")))],
)
def versions(d: Derived) -> Iterator[Problem]:
    """mindspore or mindformers is installed in another version than this package was made for."""
    for name, wanted in VERSIONS.items():
        found = d.machine.packages.get(name)
        if found is not None and found.partition("+")[0] != wanted:
            yield Problem(
                f"{name} {found} is installed, not {wanted}", (name,), f"pip install {name}=={wanted}", where="the installed packages"
            )
