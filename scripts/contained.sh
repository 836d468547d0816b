#!/bin/bash
# contained.sh COMMAND…: runs a command, and ends every process that it left when it ends or is interrupted: services and VMs
# that tests and benchmarks start live in sessions of their own and outlive their parent. Exits as the command does.
# This process is the reaper of its descendants (prctl PR_SET_CHILD_SUBREAPER), so that daemons become its children.
set -uo pipefail
if [ "${1:-}" != --reaper ]; then
  case $(uname -sm) in
    "Linux x86_64") prctl=157 ;;
    "Linux aarch64") prctl=167 ;;
    *) exec bash "$0" --reaper "$@" ;;
  esac
  # The attribute survives exec.
  exec perl -e 'syscall(shift, 36, 1, 0, 0, 0) == 0 or die "contained: prctl: $!\n"; exec @ARGV or die "contained: $!\n"' \
    "$prctl" bash "$0" --reaper "$@"
fi
shift
export SBX_TEST_RUN=$$

# Direct and indirect children of PID…, and the pids themselves.
family() {
  local pid
  for pid; do
    echo "$pid"
    # shellcheck disable=SC2046
    family $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
  done
}

# Descendants of this process that run, without the programs of this script.
left() {
  local pid
  for pid in $(family $$); do
    [ "$pid" = $$ ] || [ "$pid" = "$BASHPID" ] || ! readlink "/proc/$pid/exe" >/dev/null || echo "$pid"
  done
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
  # Twice: a process whose parent ends while the first look goes from parent to child is in neither's list.
  for _ in {1..50}; do
    [ -n "$(left)" ] || { sleep 0.1; [ -n "$(left)" ] || return 0; }
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
