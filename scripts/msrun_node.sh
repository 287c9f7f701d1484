#!/usr/bin/env bash
# The ranks of one host of a frozen run directory, through msrun. Options: msrun_node.sh --help
set -euo pipefail

usage() {
  cat <<'HELP'
Usage: msrun_node.sh --run-dir DIR --nodes N --node-rank K --master-addr HOST [option value]...

Start this host's ranks of a run directory that `train` has frozen, without the launcher: no live view, no summary. Run it on
every host, with the same words but --node-rank. Exit code 0 when this host's ranks have ended well.

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
  -h, --help          print this

Example, on two hosts:
  msrun_node.sh --run-dir /share/run1 --nodes 2 --node-rank 0 --master-addr 10.0.0.1
  msrun_node.sh --run-dir /share/run1 --nodes 2 --node-rank 1 --master-addr 10.0.0.1

One host: msrun_local.sh
HELP
}

refuse() {
  printf '%s\n  mend: %s\n' "$1" "${2:-see ${MSRUN_SCRIPT:-msrun_node.sh} --help}" >&2
  exit 2
}

run_dir="" nodes="" node_rank="" master_addr="" devices="" port=8118 timeout=600 threads="" python="" dry_run=""
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dry-run) dry_run=1; shift; continue ;;
    --run-dir | --nodes | --node-rank | --master-addr | --devices | --port | --timeout | --threads | --python)
      (($# > 1)) || refuse "$1 needs a value"
      name=${1#--}
      printf -v "${name//-/_}" '%s' "$2"
      shift 2 ;;
    *) refuse "unknown option $1" ;;
  esac
done

for name in run_dir nodes node_rank master_addr; do
  [[ -n ${!name} ]] || refuse "--${name//_/-} is missing"
done
for name in config.yaml mindformers.yaml lock.json; do
  [[ -f $run_dir/$name ]] || refuse "$run_dir is not a frozen run: $name is missing" "make one with train"
done
run_dir=$(cd -- "$run_dir" && pwd -P)
python=${python:-$(command -v python3)} || refuse "no python3 on PATH" "--python PATH"
bin=$(cd -- "$(dirname -- "$python")" && pwd)
called=$(basename -- "$python")
[[ $called == python || $called == python3 ]] || called=python # msrun takes these two names only, and looks them up on PATH
derived() {
  "$python" -c 'import json, sys; print(json.load(open(sys.argv[1], encoding="utf-8"))["derived"][sys.argv[2]])' "$run_dir/lock.json" "$1"
}

devices=${devices:-$(derived devices_per_node)}
for name in nodes node_rank devices port timeout ${threads:+threads}; do
  [[ ${!name} =~ ^[0-9]+$ ]] || refuse "--${name//_/-} ${!name} is not a number"
done
for name in nodes devices; do
  ((${!name} > 0)) || refuse "--$name ${!name}: there must be one" "--$name 1"
done
planned=$(derived device_num)
((nodes * devices == planned)) || refuse "--nodes $nodes with --devices $devices are $((nodes * devices)) ranks, and the run is laid out for $planned" \
  "--nodes and --devices whose product is $planned, or another run directory: train ... launch.nodes=$nodes launch.devices_per_node=$devices"
((node_rank < nodes)) || refuse "--node-rank $node_rank with --nodes $nodes" "--node-rank 0 to $((nodes - 1))"
if ((node_rank == 0 && nodes * devices > 1)) && [[ -z $dry_run ]]; then
  "$python" -c 'import socket, sys; socket.create_server(("", int(sys.argv[1])))' "$port" 2>/dev/null ||
    refuse "port $port of this host is in use" "--port <a free one>"
fi

if [[ -z $threads && -z ${OMP_NUM_THREADS:-} && $(derived device_target) == CPU ]]; then
  cores=$(nproc)
  threads=$((cores / devices > 0 ? cores / devices : 1))
fi
[[ -z $threads ]] || export OMP_NUM_THREADS=$threads
while IFS= read -r -d '' pair; do # variables that knobs stand for, then launch.env, as the launcher sets them
  if [[ $pair == *=* ]]; then export "${pair?}"; else unset "$pair"; fi
done < <("$python" -c '
import json, sys, yaml
with open(sys.argv[1] + "/config.yaml", encoding="utf-8") as config, open(sys.argv[1] + "/lock.json", encoding="utf-8") as lock:
    env = {**json.load(lock)["derived"].get("environment", {}), **(yaml.safe_load(config)["launch"]["env"] or {})}
sys.stdout.write("".join(f"{key}\0" if value is None else f"{key}={value}\0" for key, value in env.items()))
' "$run_dir")
mapfile -d '' msrun_options < <("$python" -c '
import json, sys
with open(sys.argv[1] + "/lock.json", encoding="utf-8") as lock:
    sys.stdout.write("".join(f"{word}\0" for word in json.load(lock)["derived"].get("msrun_options", [])))
' "$run_dir")
export PYTHONUNBUFFERED=1 PYTHONSAFEPATH=1 PATH="$bin:$PATH"
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if ! "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("mindrecipe") is None)'; then
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$here/../src" # a checkout that is not installed
fi

logs=$run_dir/logs
if ((nodes * devices == 1)); then
  command=("$python" -m mindrecipe.worker "$run_dir")
  output=$logs/rank_0.log
else
  # the same line as mindrecipe.launch.commands builds, which says why each option is there
  command=(msrun --join=True "--worker_num=$((nodes * devices))" "--local_worker_num=$devices" "--master_addr=$master_addr"
    "--master_port=$port" "--node_rank=$node_rank" "--log_dir=$logs" "--cluster_time_out=$timeout" --worker_log_name=rank
    "--tail_worker_log=$((nodes * devices))" "${msrun_options[@]}" "$called" -m mindrecipe.worker "$run_dir")
  output=$logs/msrun.log
  ((nodes == 1)) || output=$logs/msrun_$node_rank.log
fi
if [[ -n $dry_run ]]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi

# Ranks die with what started them (the kernel sees to it), so killing msrun stops them all. msrun itself would take Ctrl-C for success.
child=""
stop() {
  trap '' INT TERM HUP
  [[ -z $child ]] || kill -KILL "$child" 2>/dev/null || true
  exit $((128 + $1))
}
trap 'stop 1' HUP
trap 'stop 2' INT
trap 'stop 15' TERM

mkdir -p "$logs"
if ((node_rank == 0)) && command -v flock >/dev/null; then # the launcher's own lock: all our processes hold it, until the last has ended
  exec 8<>"$run_dir/.launcher"
  flock -n 8 || refuse "process $(<"$run_dir/.launcher") trains in $run_dir now" "wait for its end, or stop it"
  printf '%s' "$$" >"$run_dir/.launcher"
fi
echo "run directory: $run_dir"
echo "logs: $logs"
code=0
"${command[@]}" >"$output" 2>&1 &
child=$!
wait "$child" || code=$?
((code == 0)) || echo "ended with exit code $code; the first error is in one of $logs/rank_*.log" >&2
exit "$code"
