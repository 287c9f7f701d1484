"""Saves of mindformers' own monitor, looked after: what stands on the disk after each, and while each is written.

A resumed run counts its steps from those that were done before it; its process counts from one, and so do the names that mindformers gives.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from processes import run_python

pytestmark = pytest.mark.e2e
EVERY, DONE, SAVES, KEPT = 50, 50, 5, 3

SCRIPT = """
import json, os, signal, sys
from pathlib import Path
from types import SimpleNamespace as Object
from unittest.mock import Mock
import mindspore as ms
from mindformers.core.callback.callback import CheckpointMonitor
from mindspore.train import serialization
from mindrecipe.checkpoints.find import find, trusted
from mindrecipe.worker.callback import StepEnd, StepStart
from mindrecipe.worker.environment import Place
from mindrecipe.worker.gauges import Gauges
from mindrecipe.worker.keeper import Keeper
from mindrecipe.worker.scale import Scale
from mindrecipe.worker.stopping import StopRequest

EVERY, DONE, SAVES, KEPT = map(int, sys.argv[1:])
network = ms.nn.Dense(64, 64)
counts, told = ms.Parameter(ms.Tensor([0], ms.int32)), {}

def saved(root):
    return [each.step for each in trusted(find(root)).complete]

for rank in (0, 1):
    for kind, background in (("ckpt", False), ("safetensors", False), ("ckpt", True)):
        os.environ["RANK_ID"] = str(rank)
        run = Path(f"{kind}_{background}_{rank}").absolute()
        root = run / "checkpoint"
        info = [{"epoch_num": 0, "step_num": DONE, "global_step": 0, "loss_scale": 1.0}]
        monitor = CheckpointMonitor(prefix="x", directory=str(run), save_checkpoint_steps=EVERY, keep_checkpoint_max=KEPT, async_save=background,
                                    checkpoint_format=kind, append_info=info, integrated_save=False)
        keeper = Keeper(monitor, root, KEPT, DONE, Place(rank=rank, world=1 if rank == 0 else 2, scheduler=False), Mock())
        written, whole, write = [], [], serialization._exec_save

        def watched(name, *rest, write=write, root=root, whole=whole, written=written, **more):
            write(name, *rest, **more)  # mindspore has removed what had the name before it wrote: that is what a kill in it would leave
            whole.append(sorted(path.name for path in (root / "manifests").glob("*.json") if path.suffix == ".json" and all(
                (root / file).exists() for file in json.loads(path.read_text())["files"])))
            written.append(Path(name).name)

        serialization._exec_save = watched
        for k in range(1, SAVES * EVERY + 1):
            arguments = Object(cur_step_num=k, cur_epoch_num=1, batch_num=1000, train_network=network, network=network,
                               optimizer=Object(global_step=counts), net_outputs=(1.0, False, 1.0))
            monitor.step_end(Object(original_args=lambda arguments=arguments: arguments))
            keeper.look(k, DONE + k, 1)
            if k % EVERY == 0:  # a step later it would be finished: here there is no step to wait for
                for future in keeper._pending:
                    future.result()
        keeper.close()
        serialization._exec_save = write
        folder = root / f"rank_{rank}"
        told[run.name] = {
            "files": sorted(path.name for path in folder.iterdir() if path.suffix == f".{kind}"), "left": sorted(path.suffix for path in folder.iterdir()),
            "whole": whole, "written": written, "meta": json.loads((folder / "meta.json").read_text())["last_ckpt_file"],
            "found": saved(root) if rank == 0 else None,
        }

# SIGTERM while the last checkpoint is being finished, and after the last agreement: nothing is lost, and the ranks still do the same
asked = []
def agree(loss, stop, host_time):
    asked.append(stop)
    return Object(loss=loss, stop=stop, host_times=[host_time])

for early in (False, True):
    asked.clear()
    stop = StopRequest()
    start = StepStart(stop, final_checkpoint=False)
    scale = Scale(tokens=100, flops=None, recomputed=None, peak=None, steps_per_epoch=4, first=0)
    finished = []
    def close(**_):
        os.kill(os.getpid(), signal.SIGTERM)
        finished.append(stop.asked)
    end = StepEnd(start, Mock(), scale, agree, Mock(undecided=None), None, Gauges(memory=lambda: 7, update_ratio_steps=None), stop, Mock(close=close), profiled=range(0))
    step = Object(cur_step_num=0, cur_epoch_num=1, net_outputs=(2.5, False, 1.0, 0.1, 1.0))
    context = Mock(original_args=lambda: step)
    for _ in range(1 + early):  # the first step arms it
        step.cur_step_num += 1
        start.on_train_step_begin(context); start.on_train_step_end(context); end.on_train_step_end(context)
        if early and step.cur_step_num == 1:
            os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)  # once more, or only on this rank after all have agreed to go on to the end
    told[f"stop_{early}"] = {"saves": start.saves_at_the_end, "stopped": context.request_stop.called}
    end.on_train_end(context)
    told[f"stop_{early}"] |= {"finished": finished, "asked": list(asked)}
stop.disarm()
told["disarmed"] = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
print("TOLD", json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("keeper")
    done = run_python("-c", SCRIPT, *map(str, (EVERY, DONE, SAVES, KEPT)), cwd=folder)
    assert done.returncode == 0, done.stdout[-3000:]
    return dict(json.loads(next(line for line in done.stdout.splitlines() if line.startswith("TOLD")).removeprefix("TOLD")))


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("how", ["ckpt_False", "safetensors_False", "ckpt_True"])
def test_a_resumed_run_keeps_as_many_as_it_was_told_to(told: dict[str, Any], how: str, rank: int) -> None:
    """Under names that mindformers would have given to later saves of the process, which mindspore then deletes before it writes."""
    found, kind = told[f"{how}_{rank}"], how.partition("_")[0]
    steps = [DONE + EVERY * number for number in range(1, SAVES + 1)]
    kept = steps[-KEPT - rank :]  # rank 1 alone does not know whether the newest will be rolled back
    assert found["files"] == sorted(f"x_rank_{rank}-1_{step}.{kind}" for step in kept)
    assert found["left"] == sorted([*[f".{kind}"] * len(kept), ".json"]), "nothing half-written"
    assert how == "ckpt_True" or found["meta"] == f"x_rank_{rank}-1_{steps[-1]}.{kind}"  # in the background it is told a step later
    assert rank or found["found"] == kept


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("how", ["ckpt_False", "safetensors_False", "ckpt_True"])
def test_while_it_writes_all_kept_ones_are_whole(told: dict[str, Any], how: str, rank: int) -> None:
    names = [f"{DONE + EVERY * number:08d}.rank_{rank}.json" for number in range(1, SAVES + 1)]
    assert told[f"{how}_{rank}"]["whole"] == [names[max(0, number - KEPT - rank) : number] for number in range(SAVES)]
    assert not set(told[f"{how}_{rank}"]["written"]) & set(told[f"{how}_{rank}"]["files"])


def test_a_signal_at_the_end_loses_nothing_and_parts_no_ranks(told: dict[str, Any]) -> None:
    """After the last agreement it is this rank's alone: it saves as the others do, agrees as they do, and ends once all is finished."""
    assert told["stop_False"] == {"saves": False, "stopped": False, "finished": [True], "asked": [False, False]}
    assert told["stop_True"] == {"saves": True, "stopped": True, "finished": [True], "asked": [False, True, True]}
    assert told["disarmed"]
