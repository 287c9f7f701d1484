"""Behaves as msrun 2.9.0 does, without its second and a half of imports: sessions of their own for ranks, a poll a second
(FAKE_MSRUN_POLL), a long wait for the scheduler after a failure (FAKE_MSRUN_WAIT; the real one's is half a minute), success after Ctrl-C."""

import argparse
import os
import signal
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
for name in ("worker_num", "local_worker_num", "master_port", "node_rank", "cluster_time_out"):
    parser.add_argument(f"--{name}", type=int)
for name in ("master_addr", "log_dir", "join", "worker_log_name", "tail_worker_log"):
    parser.add_argument(f"--{name}")
parser.add_argument("script")
parser.add_argument("args", nargs=argparse.REMAINDER)
args = parser.parse_args()
command = [args.script, *args.args]
os.environ.update(MS_WORKER_NUM=str(args.worker_num), RANK_SIZE=str(args.worker_num), RANK_ID="0")
scheduler, workers = None, []


def start(role, log, **options):
    os.environ["MS_ROLE"] = role
    with open(os.path.join(args.log_dir, log), "w") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)


if args.node_rank == 0:
    scheduler = start("MS_SCHED", "scheduler.log")
for local in range(args.local_worker_num):
    rank = args.node_rank * args.local_worker_num + local
    os.environ.update(RANK_ID=str(rank), MS_NODE_ID=str(rank), DEVICE_ID=str(local))
    workers.append(start("MS_WORKER", f"{args.worker_log_name}_{rank}.log", preexec_fn=os.setsid))
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
while True:
    codes = [worker.poll() for worker in workers]
    failed = [worker for worker in workers if worker.poll()]
    if failed:
        print(f"Worker process {failed[0].pid} exit with exception. Error code: {failed[0].returncode}.", file=sys.stderr, flush=True)
        for worker in workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
        time.sleep(float(os.environ.get("FAKE_MSRUN_WAIT", "300")))
        raise RuntimeError(f"Distributed job exited with exception. Please check logs in directory: {args.log_dir}.")
    if all(code == 0 for code in codes):
        break
    time.sleep(float(os.environ.get("FAKE_MSRUN_POLL", "1")))
if scheduler is not None and scheduler.wait() != 0:
    raise RuntimeError(f"Distributed job exited with exception. Please check logs in directory: {args.log_dir}.")
