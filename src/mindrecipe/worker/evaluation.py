"""``python -m mindrecipe.worker.evaluation RUN REQUEST``: a run's weights judged in a process that has trained nothing.

The whole pipeline is built anew: configuration, data, network, weights, warm-up. One process, fixed seed and order. REQUEST is a JSON
file that says what to evaluate (:class:`Request`); the answer is written beside it as result.json.
"""

from __future__ import annotations

import json
import math
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mindrecipe.errors import EXIT_FAILED, EXIT_OK
from mindrecipe.measure.used import others_share
from mindrecipe.worker import environment, guard, load, seeds
from mindrecipe.worker.environment import Place
from mindrecipe.worker.rundir import RunDir

#: last names of parameters that forward passes write before they read them, or only count in, and that say nothing of the model
#: (mindformers parallel_core/training_graph/transformer: moe/router.py, moe/moe_layer.py, moe/ffn.py, flash_attention.py; models/llama)
COMPUTED = {
    "fi_accu", "expert_load", "expert_load_history", "expert_load_history_cnt", "num_tokens_per_expert", "max_logits_val",
    "_device_local_loss", "pi_cache", "fi_cache", "key_cache", "value_cache", "key_cache_grad", "value_cache_grad",
}  # fmt: skip
ALONE = Place(rank=0, world=1, scheduler=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``weights`` files of the checkpoint; ``files`` MindRecords to evaluate, at most ``max_batches`` batches of them (None: all).

    ``passes`` forward passes are timed after ``warm_up`` others.
    """

    weights: list[str]
    files: list[str]
    max_batches: int | None
    passes: int
    warm_up: int

    @classmethod
    def read(cls, path: Path) -> Request:
        """From the file."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def main(run_dir: Path, request: Path) -> int:
    """Evaluate; the exit code of the process."""
    guard.die_with_parent()
    request = request.absolute()
    run = RunDir.read(run_dir)
    environment.prepare(run, ALONE)
    try:
        result = evaluate(run, Request.read(request))
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
    request.with_name("result.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return EXIT_OK


def evaluate(run: RunDir, request: Request) -> dict[str, Any]:
    """Losses (nats a token), latencies (seconds) of ``passes`` forward passes of one micro batch, throughput over the whole data."""
    clock = time.perf_counter()
    if load.device_target(run) == "CPU":
        from mindrecipe.worker import portable

        portable.before_mindformers()
    load.user_modules(list(run.config["run"]["imports"]))
    native = alone(load.load(run, ALONE))
    from mindrecipe.worker import training
    from mindrecipe.worker.heldout import Rows, TokenLosses

    training.start_runtime(run, native)
    seeds.everywhere(int(native.seed))
    cell = TokenLosses(network_of(native, request.weights), legacy=bool(native.get("use_legacy", True)))
    cell.set_train(False)
    rows = Rows.of(native)
    built = time.perf_counter()
    batches = list(_first(rows.batches(request.files), request.max_batches))
    if not batches:
        raise ValueError(f"there is not one row in {', '.join(request.files)}")
    ready = time.perf_counter()
    _forward(cell, batches[0])
    compiled = time.perf_counter()
    for number in range(request.warm_up):
        _forward(cell, batches[number % len(batches)])
    latencies = [_timed(cell, batches[number % len(batches)]) for number in range(request.passes)]
    usage = _Usage(native.context.device_target)
    began = time.perf_counter()
    losses = [_forward(cell, batch) for batch in _first(rows.batches(request.files), request.max_batches)]
    took = time.perf_counter() - began
    total, count = (sum(part) for part in zip(*losses, strict=True))
    return {
        "loss": total / count,
        "perplexity": math.exp(min(total / count, 700.0)),
        "tokens": int(count),
        "batches": len(losses),
        "batch_size": rows.size,
        "latencies": latencies,
        "tokens_per_s": count / took,
        "seconds": {"build": built - clock, "data": ready - built, "compile": compiled - ready, "pass": took},
        **usage.since(took),
    }


def alone(native: Any) -> Any:
    """The configuration of one process: weights of a data parallel run are whole on each rank."""
    native.use_parallel = False
    native.parallel.parallel_mode = "STAND_ALONE"
    native.parallel_config.data_parallel = 1
    native.load_checkpoint = ""
    native.resume_training = False
    native.runner_config.mini_batch_size = native.runner_config.batch_size  # what training would derive
    return native


def network_of(native: Any, files: list[str]) -> Any:
    """The network of ``native``, with the weights in the checkpoint ``files``. ValueError where they don't hold all of them."""
    import mindspore as ms
    from mindformers.core.parallel_config import build_parallel_config
    from mindformers.models.build_model import build_network

    build_parallel_config(native)
    arguments = {key: native.get(key) for key in ("parallel_config", "moe_config")}
    network = build_network(native.model, default_args={**arguments, "dataset_config": native.train_dataset})
    network.set_train(False)
    weights: dict[str, Any] = {}
    for file in files:
        weights.update(ms.load_checkpoint(file, format=Path(file).suffix.lstrip(".")))
    fill(network, weights)
    return network


def fill(network: Any, weights: dict[str, Any]) -> None:
    """Give ``network`` all parameters that ``weights`` has: those of frozen layers, and the biases that balance experts, are no gradient's
    and are the model's all the same. ValueError where one is missing that no forward pass computes by itself.
    """
    import mindspore as ms

    own = {parameter.name: parameter for parameter in network.get_parameters()}
    missing = sorted(name for name, parameter in own.items() if name not in weights and not _is_computed(name, parameter))
    if missing:
        raise ValueError(f"the checkpoint has not {len(missing)} of {len(own)} parameters: {', '.join(missing[:5])}")
    ms.load_param_into_net(network, {name: weights[name] for name in own if name in weights}, strict_load=True)


def _is_computed(name: str, parameter: Any) -> bool:
    return not parameter.requires_grad and name.rpartition(".")[2] in COMPUTED


def _first(batches: Iterator[Any], most: int | None) -> Iterator[Any]:
    for number, batch in enumerate(batches):
        if most is not None and number >= most:
            return
        yield batch


def _forward(cell: Any, batch: Any) -> tuple[float, float]:
    """Sum of the token losses and number of tokens of a batch, fetched: the pass is over when this returns."""
    import mindspore as ms

    total, count = cell(*(ms.Tensor(part) for part in batch))
    return float(total.asnumpy()), float(count.asnumpy())


def _timed(cell: Any, batch: Any) -> float:
    began = time.perf_counter()
    _forward(cell, batch)
    return time.perf_counter() - began


class _Usage:
    """CPU time and memory of this process over a stretch of time, and how busy others kept its cores meanwhile."""

    def __init__(self, device_target: str) -> None:
        from mindrecipe.worker import usage
        from mindrecipe.worker.memory import gauge

        self._memory = gauge(device_target, on=True)
        self._cpu_only = device_target == "CPU"
        self._cores = usage.cores_of_the_run()
        self._busy = partial(usage.busy_seconds, self._cores)
        self._cpu, self._host = time.process_time(), self._busy()

    def since(self, seconds: float) -> dict[str, Any]:
        """``cores`` busy on average since the start, the share that ``others`` used of those that this process may use, and the peak of
        ``memory_bytes``."""
        import resource

        own, host = time.process_time() - self._cpu, self._busy() - self._host
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {
            "cores": own / seconds,
            "others": others_share(host, own, len(self._cores) * seconds),
            "memory_bytes": peak if self._cpu_only else self._memory(),
            "host_peak_bytes": peak,
        }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m mindrecipe.worker.evaluation RUN_DIR REQUEST")
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
