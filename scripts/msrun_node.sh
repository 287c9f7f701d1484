#!/usr/bin/env bash
# The ranks of one host of a frozen run directory, through msrun. Options: msrun_node.sh --help
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: msrun_node.sh --run-dir DIR --nodes N --node-rank K --master-addr HOST [option value]... [-- OPTION_OF_MSRUN...]

Start this host's ranks of a run directory that `train ... launch.freeze_only=true` has made, without the launcher: no live view, no
summary, no restart. Run it on every host, with the same words but --node-rank. Exit code 0 when this host's ranks have ended well.
SIGTERM lets the ranks save and leave, for launch.stop_grace seconds at most (143); Ctrl-C ends them at once (130). A directory that has
trained is refused: its checkpoints would be overwritten.

  --run-dir DIR       the run directory (config.yaml, mindformers.yaml, lock.json), the same path on every host
  --nodes N           hosts
  --node-rank K       this host: 0 is the one with --master-addr, N-1 the last
  --master-addr HOST  address of the first host
  --devices N         ranks of one host; default: devices_per_node of DIR/lock.json
  --port P            port of msrun's scheduler on the first host; default 8118
  --timeout S         seconds the ranks wait for each other at the start; default 600
  --threads N         OMP_NUM_THREADS of a rank; default: cores / ranks where the run is for CPU
  --python PATH       the Python that has mindspore and mindrecipe; default: python3 on PATH
  --dry-run           print the command, and stop
  -- OPTION...        further options of msrun, as they are: -- --bind_core=True
  -h, --help          print this

Example, on two hosts; the first command on one of them:
  train +model=llama2_tiny parallel=data launch.nodes=2 launch.master_addr=10.0.0.1 run.dir=/share/run1 launch.freeze_only=true
  msrun_node.sh --run-dir /share/run1 --nodes 2 --node-rank 0 --master-addr 10.0.0.1
  msrun_node.sh --run-dir /share/run1 --nodes 2 --node-rank 1 --master-addr 10.0.0.1

One host: msrun_local.sh
HELP
}

refuse() {
  printf '%s\n  mend: %s\n' "$1" "${2:-see ${MSRUN_SCRIPT:-msrun_node.sh} --help}" >&2
  exit 2
}

run_dir="" nodes="" node_rank="" master_addr="" devices="" port=8118 timeout=600 threads="" python="" dry_run="" raw=()
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry_run=1; shift; continue ;;
    --) shift; raw=("$@"); break ;;
    --run-dir | --nodes | --node-rank | --master-addr | --devices | --port | --timeout | --threads | --python)
      (($# > 1)) || refuse "$1 needs a value"
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2 ;;
    *) refuse "unknown option $1" "options of msrun stand after --: -- $1" ;;
  esac
done

for name in run_dir nodes node_rank master_addr; do
  [[ -n ${!name} ]] || refuse "--${name//_/-} is missing"
done
for name in config.yaml mindformers.yaml lock.json; do
  [[ -f $run_dir/$name ]] || refuse "$run_dir is not a frozen run: $name is missing" "make one: train ... run.dir=$run_dir launch.freeze_only=true"
done
run_dir=$(cd -- "$run_dir" && pwd -P)
python=${python:-python3}
found=$(command -v -- "$python") || refuse "there is no $python" "--python <the Python that has mindspore and mindrecipe>"
python=$found
bin=$(cd -- "$(dirname -- "$python")" && pwd)
python=$bin/$(basename -- "$python")
export PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1

# Variables that give a rank its place, device or nature, left over from an outer job: FOREIGN of mindrecipe.launch.environment.
foreign=(
  MS_ROLE MS_NODE_ID MS_WORKER_NUM MS_SERVER_NUM MS_SCHED_HOST MS_SCHED_PORT MS_TOPO_TIMEOUT
  RANK_ID RANK_SIZE RANK_TABLE_FILE SERVER_ID DEVICE_ID MS_SIMULATION_LEVEL
  MS_COMPILER_CACHE_ENABLE MS_COMPILER_CACHE_PATH MS_ENABLE_RECOVERY MS_RECOVERY_PATH
)
# What the frozen files say, as assignments. `variables` are words of env(1): what knobs stand for, then launch.env, as the launcher sets them.
facts=$("$python" - "$run_dir" "${foreign[@]}" <<'PYTHON'
import sys

sys.path[:] = [entry for entry in sys.path if entry not in ("", ".")]  # the current folder is no place for libraries
import json, math, os, re, shlex

run_dir, *foreign = sys.argv[1:]
try:
    import yaml

    with open(f"{run_dir}/config.yaml", encoding="utf-8") as config, open(f"{run_dir}/lock.json", encoding="utf-8") as lock:
        launch, derived = yaml.safe_load(config)["launch"], json.load(lock)["derived"]
    manifests = f"{run_dir}/checkpoint/manifests"
    names = os.listdir(manifests) if os.path.isdir(manifests) else []
    given = {**(derived.get("environment") or {}), **(launch["env"] or {})}
    facts = {
        "planned_devices": derived["devices_per_node"],
        "planned": derived["device_num"],
        "target": derived["device_target"],
        "grace": launch["stop_grace"],
        "grace_ms": math.ceil(1000 * launch["stop_grace"]),
        "begins": (derived.get("resume") or {}).get("step", 0),
        "trained": max((int(name.split(".")[0]) for name in names if re.fullmatch(r"\d{8,}\.rank_\d+\.json", name)), default=0),
    }
except ImportError as fault:
    sys.exit(f"{sys.executable}: {fault}\n  mend: --python <the Python that has mindspore and mindrecipe>")
except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError) as fault:
    sys.exit(f"{run_dir}: config.yaml or lock.json is not what train writes: {fault!r}\n  mend: freeze the run anew")
words = [word for name in foreign for word in ("-u", name)]
words += [word for name, value in given.items() if value is None for word in ("-u", name)]
words += [f"{name}={value}" for name, value in given.items() if value is not None]
for name, value in facts.items():
    print(f"{name}={shlex.quote(str(value))}")
for name, value in (("variables", words), ("msrun_options", derived.get("msrun_options") or [])):
    print(f"{name}=({' '.join(shlex.quote(str(word)) for word in value)})")
print(f"left_out=({' '.join(name for name in foreign if name in os.environ and name not in given)})")
PYTHON
) || exit 2
eval "$facts"

devices=${devices:-$planned_devices}
for name in nodes node_rank devices port timeout ${threads:+threads}; do
  [[ ${!name} =~ ^[0-9]+$ ]] || refuse "--${name//_/-} ${!name} is not a number"
done
for name in nodes devices; do
  ((${!name} > 0)) || refuse "--$name ${!name}: there must be one" "--$name 1"
done
((nodes * devices == planned)) || refuse "--nodes $nodes with --devices $devices are $((nodes * devices)) ranks, and the run is laid out for $planned" \
  "--nodes and --devices whose product is $planned, or another run directory: train ... launch.nodes=$nodes launch.devices_per_node=$devices"
((node_rank < nodes)) || refuse "--node-rank $node_rank with --nodes $nodes" "--node-rank 0 to $((nodes - 1))"
alone=$((planned == 1)) # one process needs no msrun
if ((alone && ${#raw[@]})); then refuse "options of msrun for a single rank, which needs no msrun: ${raw[*]}" "without -- ${raw[*]}"; fi
((trained <= begins)) || refuse "$run_dir has trained: it has checkpoints up to step $trained, and starts after step $begins. They would be overwritten" \
  "a run directory that goes on from them: train ... checkpoint.resume=$run_dir run.dir=<a new one> launch.freeze_only=true"
if ((node_rank == 0 && !alone)) && [[ -z $dry_run ]]; then
  "$python" -c 'import socket, sys; socket.create_server(("", int(sys.argv[1])))' "$port" 2>/dev/null ||
    refuse "port $port of this host is in use" "--port <a free one>"
fi
if ((nodes > 1)) && [[ -z $dry_run ]]; then
  address=$("$python" -c 'import socket, sys; print(socket.getaddrinfo(sys.argv[1], None)[0][4][0])' "$master_addr" 2>/dev/null) ||
    refuse "the host name $master_addr does not resolve" "--master-addr <IP address of the first host>"
  [[ $address != 127.* && $address != ::1 ]] || refuse "other hosts can't reach --master-addr $master_addr, which is $address for this host" \
    "--master-addr <IP address of the first host>, on every host"
fi

if [[ -z $threads && -z ${OMP_NUM_THREADS:-} && $target == CPU ]]; then
  cores=$(nproc)
  threads=$((cores / devices > 0 ? cores / devices : 1))
fi
[[ -z $threads ]] || export OMP_NUM_THREADS=$threads
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if ! "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("mindrecipe") is None)'; then
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$here/../src" # a checkout that is not installed
fi

# msrun takes these two names only, and looks them up on PATH: where this Python has neither, it gets one in the run directory
folders=$bin called=$(basename -- "$python") shim=""
if [[ $called != python && $called != python3 ]]; then
  called=python
  if [[ ! $bin/python -ef $python && $bin/python3 -ef $python ]]; then called=python3; fi
  if [[ ! $bin/$called -ef $python ]]; then shim=$run_dir/bin/python folders=$run_dir/bin:$bin; fi
fi

logs=$run_dir/logs
if ((alone)); then
  command=("$python" -m mindrecipe.worker "$run_dir")
  output=$logs/rank_0.log
else
  # the same line as mindrecipe.launch.commands builds, which says why each option is there
  command=(msrun --join=True "--worker_num=$planned" "--local_worker_num=$devices" "--master_addr=$master_addr"
    "--master_port=$port" "--node_rank=$node_rank" "--log_dir=$logs" "--cluster_time_out=$timeout" --worker_log_name=rank
    "--tail_worker_log=$planned" "${msrun_options[@]}" "${raw[@]}" "$called" -m mindrecipe.worker "$run_dir")
  output=$logs/msrun.log
  ((nodes == 1)) || output=$logs/msrun_$node_rank.log
fi
if [[ -n $dry_run ]]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi
((alone)) || PATH=$folders:$PATH command -v msrun >/dev/null || refuse "msrun, which starts $planned ranks, is missing: it comes with mindspore" \
  "--python <the Python that has mindspore>, or pip install mindspore"

# shellcheck source=scripts/processes.sh
source "$here/processes.sh"
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM

mkdir -p "$logs"
if ((node_rank == 0)); then # the launcher's own lock: all our processes hold it, until the last has ended
  exec 8<>"$run_dir/.launcher"
  "$python" -c '
import fcntl, sys, time
for attempt in range(20):  # one that only looks whether it is held has it for a moment
    try:
        fcntl.flock(8, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.05)
    else:
        sys.exit(0)
sys.exit(1)' || refuse "process $(<"$run_dir/.launcher") trains in $run_dir now" "wait for its end, or stop it"
  printf '%s' "$$" >"$run_dir/.launcher"
fi
if [[ -n $shim ]]; then
  mkdir -p "$run_dir/bin"
  printf '#!/bin/sh\nexec %s "$@"\n' "$("$python" -c 'import shlex, sys; print(shlex.quote(sys.argv[1]))' "$python")" >"$shim.$$"
  chmod 755 "$shim.$$"
  mv -f -- "$shim.$$" "$shim" # in one piece: other hosts may share the folder
fi
set_aside() { # an earlier start's logs keep their words, under a numbered name
  local path=$1 number=1
  [[ -e $path ]] || return 0
  while [[ -e ${path%.log}.$number.log ]]; do number=$((number + 1)); done
  mv -- "$path" "${path%.log}.$number.log"
}
set_aside "$output"
((node_rank > 0 || alone)) || set_aside "$logs/scheduler.log"
for ((rank = node_rank * devices; rank < (node_rank + 1) * devices; rank++)); do set_aside "$logs/rank_$rank.log"; done

echo "run directory: $run_dir"
echo "logs: $logs"
((${#left_out[@]} == 0)) || echo "left out of the ranks' environment, as another job's: ${left_out[*]} (launch.env.${left_out[0]}=... sets it)"
code=0
# The child becomes msrun, or the rank. Before, it asks the kernel to be killed when this script ends, even by kill -9: ranks end with msrun in
# the same way (mindrecipe.orphans). A session of its own keeps the terminal's Ctrl-C from it, which msrun would take for success; a notice of
# SIGTERM to all processes of a job is for the ranks, not for msrun.
env "${variables[@]}" "$python" -c '
import ctypes, os, signal, sys

parent, run_id, folders, *command = sys.argv[1:]
if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0) != 0:  # PR_SET_PDEATHSIG
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
if os.getppid() != int(parent):  # it ended before we asked
    sys.exit(1)
os.setsid()
signal.signal(signal.SIGINT, signal.SIG_DFL)
if command[0] == "msrun":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.environ["PATH"] = os.pathsep.join(filter(None, [folders, os.environ.get("PATH")]))
os.environ.update(MINDRECIPE_RUN_ID=run_id, MINDRECIPE_LAUNCHER_PID=parent)
os.execvp(command[0], command)
' "$$" "$run_id" "$folders" "${command[@]}" >"$output" 2>&1 &
child=$!
wait "$child" || code=$?
end_all
((code == 0)) || echo "ended with exit code $code; the first error is in one of $logs/rank_*.log" >&2
exit "$code"
