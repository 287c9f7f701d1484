"""Stands in for `train`: a run directory with real times of steps that only compute. Words: fake.slow, fake.fail, fake.memory,
fake.deaf, fake.data (a file whose hash is that of its data)."""

from __future__ import annotations

import hashlib
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from runs import make, steps

from mindrecipe.measure.artifacts import write_summary
from mindrecipe.measure.outcome import Outcome
from mindrecipe.measure.record import to_line
from mindrecipe.measure.summary import Session, summarise

TOKENS = 1024


def main() -> int:
    words = {key.lstrip("+"): value for key, _, value in (word.partition("=") for word in sys.argv[1:])}
    if words.get("fake.deaf") == "true":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if words.get("fake.fail") == "true":
        print("error: this word can't be\n  mend: another word")
        return 2
    path, total = Path(words["run.dir"]), int(words["schedule.total_steps"])
    batch = int(words.get("dataset.batch_size", "8"))
    ranks = int(words.get("launch.workers", "1"))
    tokens = 128 * batch * ranks
    data = hashlib.sha256(Path(words["fake.data"]).read_bytes()).hexdigest() if "fake.data" in words else "abc"
    make(path, [], derived={"tokens_per_step": tokens, "total_steps": total}, lock={"dataset_hash": data})
    (path / "summary.json").unlink()
    records, began = [], time.perf_counter()
    for record in steps(total):
        cpu = time.process_time()
        slow = float(words.get("fake.slow", "1"))
        while time.process_time() < cpu + 0.005 * slow:
            pass
        time.sleep(0.015 * slow)  # so that a step takes several looks of who follows it, and its time is not only the scheduler's
        took = time.perf_counter() - began
        began += took
        memory = int(2**30 * float(words.get("fake.memory", "1")))
        records.append(replace(record, step_time=took, cpu_time=time.process_time() - cpu, tokens_per_s=tokens / took, memory_bytes=memory))
        with (path / "metrics.jsonl").open("a") as file:
            file.write(to_line(records[-1]))
    write_summary(
        path / "summary.json", summarise(Outcome(state="completed", exit_code=0), records, session=Session(started=0.0, ended=1.0))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
