"""A rank that simulates nothing: what `python -m mindrecipe.worker` leaves when it simulates, or fails as it is told by FAKE."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # a rank's current folder, and its script's, are no place for libraries

import simulation_samples as samples

from mindrecipe.measure import holdings
from mindrecipe.measure.record import event, to_line


def main() -> int:
    run, rank, fake = Path(sys.argv[1]), int(os.environ["RANK_ID"]), os.environ.get("FAKE", "")
    assert os.environ["MS_SIMULATION_LEVEL"] == "1"
    assert "MS_WORKER_NUM" not in os.environ and os.environ["PYTHONSAFEPATH"] == "1"
    events = (run / "logs" / f"rank_{rank}.events.jsonl").open("a")
    events.write(to_line(event("compile", rank, os.getpid())))
    events.flush()
    with (run / "started").open("a") as started:
        started.write(f"{rank} {time.time()} {os.getpid()}\n")
    time.sleep(60 if fake == "hang" else 0.3)
    if fake == f"raise {rank}":
        said = "num_moe_experts (6) should be divisible by expert_model_parallel_size (4)"
        events.write(to_line(event("error", rank, os.getpid(), type="ValueError", message=said, traceback="Traceback")))
        return 1
    if fake == f"die {rank}":
        os.kill(os.getpid(), 9)
    (run / "simulation").mkdir(exist_ok=True)
    holdings.write(samples.holdings(rank), run / "simulation" / f"rank_{rank}.holdings.json")
    print("Actual peak memory usage (with fragments): 708M")
    return 0


if __name__ == "__main__":
    sys.exit(main())
