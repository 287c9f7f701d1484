#!/usr/bin/env bash
# The processes of one start of msrun_node.sh, found and ended. Sourced by it: `alone` (one rank without msrun), `grace`, `grace_ms` are its.

# All processes of the job carry this mark, as the launcher's do: whoever their parent is now, they are found. A zombie has no environment left.
run_id=$(</proc/sys/kernel/random/uuid)

marked() {
  local path
  for path in $(LC_ALL=C grep -lzxsF "MINDRECIPE_RUN_ID=$run_id" /proc/[0-9]*/environ || true); do
    path=${path#/proc/}
    echo "${path%/environ}"
  done
}

# This host's ranks that live: what msrun has started but its scheduler, or the one process.
ranks() {
  local pid stat parent
  for pid in $(marked); do
    if ((alone)); then
      [[ $pid != "$child" ]] || echo "$pid"
    elif stat=$(cat "/proc/$pid/stat" 2>/dev/null); then
      read -r _ parent _ <<<"${stat##*) }"
      if [[ $parent == "$child" ]] && LC_ALL=C grep -qzxsF MS_ROLE=MS_WORKER "/proc/$pid/environ"; then echo "$pid"; fi
    fi
  done
}

send() { # signal, process ids that may have ended
  local number=$1
  shift
  (($# == 0)) || kill "-$number" "$@" 2>/dev/null || true
}

end_all() { # whatever is left of the job on this host
  local left="" count
  for ((count = 0; count < 100; count++)); do
    left=$(marked)
    [[ -n $left ]] || return 0
    # shellcheck disable=SC2086 # process ids
    send KILL $left
    sleep 0.05
  done
  echo "processes that do not die: ${left//$'\n'/ }" >&2
}

# SIGTERM is passed on to the ranks, which save and leave. msrun is frozen first: it would kill those that still save when the quickest has left.
# Another SIGTERM changes nothing (Slurm sends one when the first host has left), Ctrl-C ends the wait.
child="" hurry=""
stop() {
  local number=$1 left deadline
  trap 'hurry=1' INT HUP
  trap '' TERM
  child=${!:-}
  if [[ -n $child ]]; then
    ((alone)) || send STOP "$child"
    if ((number == 15)); then
      echo "SIGTERM: the ranks save at their next step and leave, within $grace s" >&2
      # shellcheck disable=SC2046 # process ids
      send TERM $(ranks)
      deadline=$(($(date +%s%3N) + grace_ms))
      while left=$(ranks) && [[ -n $left && -z $hurry ]] && (($(date +%s%3N) < deadline)); do sleep 0.1; done
      [[ -z $left ]] || echo "did not stop in time, and are killed: processes ${left//$'\n'/ }" >&2
    fi
    end_all
    send KILL "$child" # which has no mark in its first moment
    wait "$child" 2>/dev/null || true
  fi
  exit $((128 + number))
}
