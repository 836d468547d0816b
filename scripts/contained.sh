#!/bin/bash
# contained.sh COMMAND…: runs a command, and ends every process that it left when it ends or is interrupted: services and VMs
# that tests and benchmarks start live in sessions of their own and outlive their parent. Exits as the command does.
# They are found by a variable of their environment, and by their parents where a program cleared it.
set -uo pipefail
export SBX_TEST_RUN="$$-$RANDOM"

# Direct and indirect children of PID…, and the pids themselves.
family() {
  local pid
  for pid; do
    echo "$pid"
    # shellcheck disable=SC2046
    family $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
  done
}

# Pids of what the command started, without the programs of this script, which have ended by the time they are looked up.
left() {
  local marked pid
  marked=$(grep -lsz "^SBX_TEST_RUN=$SBX_TEST_RUN\$" /proc/[0-9]*/environ | grep -oE '[0-9]+')
  # shellcheck disable=SC2086
  marked=$(family $marked)
  for pid in $marked; do [ ! -e "/proc/$pid/exe" ] || echo "$pid"; done | sort -un
}

# Sends SIGTERM, then SIGKILL: services end their VMs in between.
end() {
  local pids name pid
  pids=$(left); [ -n "$pids" ] || return 0
  echo "ending what is left of ${command##*/}:" >&2
  for pid in $pids; do
    name=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c1-120)
    [ -z "$name" ] || echo "  $pid $name" >&2
  done
  # shellcheck disable=SC2086
  kill $pids 2>/dev/null
  for _ in {1..50}; do
    [ -n "$(left)" ] || return 0
    sleep 0.1
  done
  # shellcheck disable=SC2046
  kill -9 $(left) 2>/dev/null
}

command=$1
trap 'trap "" INT TERM HUP; end; exit 130' INT TERM HUP
# In the background, since bash handles no signal while it waits for a command in front.
"$@" &
wait $!
code=$?
end
exit "$code"
