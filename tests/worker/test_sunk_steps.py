"""With runner_config.sink_size above 1 callbacks run once for several steps: the record is of the last, its times the mean of them.

No device here sinks data, so the callbacks are driven by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import run_python

pytestmark = pytest.mark.e2e

SCRIPT = """
import json
from types import SimpleNamespace as Object
from unittest.mock import Mock
from mindrecipe.worker.callback import StepEnd, StepStart
from mindrecipe.worker.gauges import Gauges
from mindrecipe.worker.scale import Scale

now = [0.0]
import mindrecipe.worker.callback as module
module._clock = lambda: now[0]
stop, journal = Object(asked=False, arm=Mock(), disarm=Mock()), Mock()
start = StepStart(stop, final_checkpoint=False)
scale = Scale(tokens=100, flops=8e12, recomputed=None, peak=1e13, steps_per_epoch=4, first=10)
agree = lambda loss, stop, host_time: Object(loss=loss, stop=stop, host_times=[host_time])
end = StepEnd(start, journal, scale, agree, Mock(), None, Gauges(memory=lambda: 7, update_ratio_steps=None), stop, None, profiled=range(0))
context = Object(original_args=lambda: Object(cur_step_num=now_step, cur_epoch_num=1, net_outputs=(2.5, False, 1.0, 0.1, 1.0)))
for now_step in (3, 6):
    start.ended = start.recorded = now[0]
    now[0] += 0.6; start.on_train_step_begin(context)
    now[0] += 2.4; start.on_train_step_end(context)
    now[0] += 0.3; end.on_train_step_end(context)
records = [call.args[0] for call in journal.step.call_args_list]
keeper = Mock()
now[0] += 1.0
lost = StepEnd(start, journal, scale, agree, Mock(judge=Mock(side_effect=ValueError("lost"))), None,
               Gauges(memory=lambda: 7, update_ratio_steps=None), stop, keeper, profiled=range(0))
try:
    lost.on_train_step_end(context)
except ValueError:
    print("CLOSED", keeper.mock_calls)

# saves of steps that may yet be rolled back wait for their verdict: they count late or not at all, and push no older one out
import tempfile
from pathlib import Path
from mindrecipe.checkpoints import manifest
from mindrecipe.worker.environment import Place
from mindrecipe.worker.keeper import Keeper
root = Path(tempfile.mkdtemp(dir="."))
(root / "rank_0").mkdir()
save = Mock()
monitor = Object(_config=Object(async_save=False), use_legacy_format=True, save_checkpoint=save, _save_megatron_ckpt_file_format=save,
                 _last_triggered_step=0, origin_prefix="x", record_last_ckpt_to_json=save)
saves = Keeper(monitor, root, 2, 0, Place(rank=0, world=1, scheduler=False), Mock())
seen = []
for step, undecided in ((4, None), (8, None), (12, 12), (16, 12), (20, None), (24, 23)):
    monitor._last_triggered_step = step
    monitor._latest_ckpt_file_name = str(root / "rank_0" / f"made_{step}.ckpt")
    Path(monitor._latest_ckpt_file_name).write_text(str(step))
    saves.look(step, step, 1, undecided)
    for future in saves._pending:
        future.result()
    seen.append(sorted(manifest.read(root)))
saves.close(lost=True)
print("MANIFESTS", seen, sorted(manifest.read(root)))
section = root / "sharded"
folder = section / "iteration_00000006"
folder.mkdir(parents=True)
for name in ("x-model-0000000-0000002.safetensors", "x-opt-0000000-0000002.safetensors", "common.json", "metadata.json"):
    (folder / name).write_text(name)
monitor = Object(_config=Object(), use_legacy_format=False, save_checkpoint=save, _save_megatron_ckpt_file_format=save, save_optimizer=True,
                 _last_triggered_step=6, origin_prefix="x", directory=None)
saves = Keeper(monitor, section, 2, 0, Place(rank=0, world=2, scheduler=False), Mock())
saves.look(6, 6, 1)
saves.close()
print("NAMED", sorted(Path(name).name for name in manifest.read(section)[6][0].files))
print("RECORDS", json.dumps([[r.step, r.epoch, r.step_time, r.data_time, r.compute_time, r.other_time, r.tokens_per_s, r.mfu] for r in records]))
"""


def test_several_steps_in_one_go(tmp_path: Path) -> None:
    done = run_python("-c", SCRIPT, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    records = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RECORDS")).removeprefix("RECORDS"))
    assert [record[:2] for record in records] == [[13, 4], [16, 4]]
    for record in records:
        assert record[2:] == pytest.approx([1.1, 0.2, 0.8, 0.1, 100 / 1.1, 8e12 / 1.1 / 1e13])
    said = "CLOSED [call.close(lost=True)]"
    assert said in done.stdout, (
        "the launcher kills it once it is told why: what was saved before is finished first, this step's save is not"
    )
    assert "NAMED ['common.json', 'metadata.json', 'x-model-" in done.stdout, "what mindformers reads is summed up too"
    assert "MANIFESTS [[4], [4, 8], [4, 8], [4, 8], [16, 20], [16, 20]] [16, 20]" in done.stdout
