#!/usr/bin/env bash
# All ranks of a frozen run directory on this host, through msrun. Options: msrun_local.sh --help
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)

for word in "$@"; do
  [[ $word != -- ]] || break # what follows is msrun's
  if [[ $word == -h || $word == --help ]]; then
    cat <<'HELP'
Usage: msrun_local.sh --run-dir DIR [option value]... [-- OPTION_OF_MSRUN...]

Start all ranks of a run directory that `train ... launch.freeze_only=true` has made, on this host, without the launcher:
no live view, no summary, no restart. Exit code 0 when all ranks have ended well. SIGTERM lets the ranks save and leave, for
launch.stop_grace seconds at most (143); Ctrl-C ends them at once (130). A directory that has trained is refused: its
checkpoints would be overwritten.

  --run-dir DIR    the run directory (config.yaml, mindformers.yaml, lock.json)
  --devices N      ranks; default: devices_per_node of DIR/lock.json
  --port P         port of msrun's scheduler; default 8118
  --timeout S      seconds the ranks wait for each other at the start; default 600
  --threads N      OMP_NUM_THREADS of a rank; default: cores / ranks where the run is for CPU
  --python PATH    the Python that has mindspore and mindrecipe; default: python3 on PATH
  --dry-run        print the command, and stop
  -- OPTION...     further options of msrun, as they are: -- --bind_core=True
  -h, --help       print this

Example:
  train +model=llama2_tiny parallel=data launch.workers=2 run.dir=/data/run1 launch.freeze_only=true
  msrun_local.sh --run-dir /data/run1 --port 9000

Several hosts: msrun_node.sh
HELP
    exit 0
  fi
done

MSRUN_SCRIPT=msrun_local.sh exec bash "$here/msrun_node.sh" --nodes 1 --node-rank 0 --master-addr 127.0.0.1 "$@"
