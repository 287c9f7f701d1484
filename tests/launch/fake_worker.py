"""A rank without mindspore: writes what a real one writes, and misbehaves on demand.

FAKE_STEPS, FAKE_STEP_TIME, FAKE_FIRST_STEP; FAKE_CHECKPOINT=N saves every N steps; FAKE_TERM=die|save|ignore;
FAKE_ABREAST: no rank begins a step before all do, as collectives have it; FAKE_GATE=PATH: rank 0 makes no third step before it is there;
FAKE_ONCE: each fault happens once, also when the run is started again;
FAKE_FAULT="RANK:KIND@STEP" with KIND raise, fill (the disk), follow (fails once another rank is lost, as its peers do), kill, segfault, exit3,
quit (exit code 0 without being done), nan, hang, import (fails before its first event), mute (raises, but tells only its log).
"""

import ctypes
import json
import math
import os
import signal
import struct
import sys
import time
import traceback
from pathlib import Path

RUN = Path(sys.argv[1])
RANK = int(os.environ.get("RANK_ID", "0"))
NODE_RANKS = int(os.environ.get("MS_WORKER_NUM", "1"))
STEPS = int(os.environ.get("FAKE_STEPS", "4"))
STEP_TIME = float(os.environ.get("FAKE_STEP_TIME", "0.05"))
stop = []


def emit(phase, **detail):
    line = json.dumps({"phase": phase, "rank": RANK, "pid": os.getpid(), "time": time.time(), "detail": detail})
    with (RUN / "logs" / f"rank_{RANK}.events.jsonl").open("a") as file:
        file.write(line + "\n")


def metric(step, loss):
    record = dict(
        step=step,
        epoch=1,
        loss=loss if math.isfinite(loss) else str(loss),
        lr=1e-3,
        grad_norm=1.5,
        loss_scale=1.0,
        overflow=False,
        step_time=STEP_TIME,
        data_time=0.0,
        compute_time=STEP_TIME,
        other_time=0.0,
        tokens_per_s=1000.0 + step,
        tflops_per_device=0.01,
        mfu=None,
        memory_bytes=100_000_000 + step,
    )
    with (RUN / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def save(step):
    """A whole checkpoint of one entry, step_num, in MindSpore's protobuf."""
    tensor = b"\x12\x05Int32\x1a\x04" + struct.pack("<i", step)
    entry = b"\x0a\x08step_num\x12" + bytes([len(tensor)]) + tensor
    emit("save", step=step)
    time.sleep(float(os.environ.get("FAKE_SLOW_SAVE", "0")))
    folder = RUN / "checkpoint" / f"rank_{RANK}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"fake-rank_{RANK}-{step}.ckpt").write_bytes(b"\x0a" + bytes([len(entry)]) + entry)
    emit("checkpoint", step=step, path=str(folder / f"fake-rank_{RANK}-{step}.ckpt"), complete=True)


def a_peer_is_lost():
    """Whether another rank has failed, or is gone."""
    for path in (RUN / "logs").glob("rank_*.events.jsonl"):
        said = path.read_text()
        if path.name == f"rank_{RANK}.events.jsonl" or not said:
            continue
        stat = Path(f"/proc/{json.loads(said.splitlines()[0])['pid']}/stat")
        if '"phase": "error"' in said or not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
    return False


def abreast(step):
    """Wait until every rank of the job begins this step of this attempt."""
    attempts = RUN / "attempts.jsonl"
    # those that have ended: whether this one is told of already depends on the launcher of another host
    attempt = sum(json.loads(line)["ended"] is not None for line in attempts.read_text().splitlines()) if attempts.exists() else 0
    folder = RUN / "abreast"
    folder.mkdir(exist_ok=True)
    (folder / f"{attempt}_{step}_{RANK}").touch()
    while len(list(folder.glob(f"{attempt}_{step}_*"))) < NODE_RANKS and not stop:
        time.sleep(0.01)


def schedule():
    """The scheduler's part: lives as long as its ranks, as mindspore's does."""
    while True:
        done = [path for path in (RUN / "logs").glob("rank_*.events.jsonl") if '"done"' in path.read_text()]
        if len(done) == NODE_RANKS:
            sys.exit(0)
        time.sleep(0.05)


def misbehave(kind, at=3):
    if kind == "raise":
        raise ValueError(f"boom-{RANK}\nsecond line")
    if kind == "follow":
        while not a_peer_is_lost():
            time.sleep(0.02)
        raise ConnectionError("peer lost")
    if kind == "nan":
        if RANK == 0:
            metric(STEPS, math.nan)
        emit("error", type="Diverged", message=f"loss is nan at step {at}", traceback="", step=at)
        sys.exit(1)
    if kind == "mute":
        try:
            raise OSError("told-to-the-log-only")
        except OSError:
            traceback.print_exc()
        os._exit(1)
    if kind == "fill":  # the disk, as logs and checkpoints do
        with (RUN / "checkpoint.tmp").open("wb", buffering=0) as file:
            while True:
                file.write(b"1" * 65536)
    if kind == "hang":
        time.sleep(1000)
    codes = {"exit3": 3, "quit": 0}
    if kind in codes:
        os._exit(codes[kind])
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "segfault": signal.SIGSEGV}[kind])


def faults():
    """FAKE_FAULT as {(rank, step): kind}."""
    found = {}
    for fault in filter(None, os.environ.get("FAKE_FAULT", "").split(",")):
        rank, _, rest = fault.partition(":")
        kind, _, at = rest.partition("@")
        found[int(rank), int(at)] = kind
    return found


def train():
    lock = RUN / "lock.json"
    resume = json.loads(lock.read_text())["derived"].get("resume") if lock.exists() else None
    first = (resume["step"] if resume else 0) + 1
    for step in range(first, STEPS + 1):
        time.sleep(STEP_TIME)
        if os.environ.get("FAKE_ABREAST"):
            abreast(step)
        while RANK == 0 and step == 3 and not Path(os.environ.get("FAKE_GATE", "/")).exists():
            time.sleep(0.02)
        if (RANK, step) in faults() and not (os.environ.get("FAKE_ONCE") and (RUN / f"once_{RANK}_{step}").exists()):
            (RUN / f"once_{RANK}_{step}").touch()
            misbehave(faults()[RANK, step], step)
        if step % int(os.environ.get("FAKE_CHECKPOINT", "1000000")) == 0:
            save(step)
        if RANK == 0:
            metric(step, 5.0 - 0.1 * step)
        if step == first:
            emit("train")
        if stop:
            time.sleep(0.3 * (RANK + 1))
            save(step)
            emit("stopped", step=step)
            time.sleep(1)  # as if at the barrier
            os._exit(143)


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    print("python", sys.executable, "argv", json.dumps(sys.argv[1:]), flush=True)
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        schedule()
    term = os.environ.get("FAKE_TERM", "die")
    if term == "die":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    else:
        signal.signal(signal.SIGTERM, lambda *_: stop.append(1) if term == "save" else None)
    if faults().get((RANK, 0)) == "import":
        import no_such_module  # noqa: F401
    for phase in ("start", "import", "build", "compile"):
        emit(phase)
    time.sleep(float(os.environ.get("FAKE_FIRST_STEP", "0")))
    try:
        train()
    except Exception as error:
        emit("error", type=type(error).__name__, message=str(error), traceback=traceback.format_exc())
        traceback.print_exc()
        time.sleep(0.2)
        os._exit(1)
    emit("evaluate", files=1)
    (RUN / "heldout").mkdir(exist_ok=True)
    (RUN / "heldout" / f"rank_{RANK}.json").write_text(json.dumps({"loss_sum": 30.0 * (RANK + 1), "tokens": 10 * (RANK + 1)}))
    emit("done")
    if os.environ.get("FAKE_AFTER_DONE") == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)


main()
