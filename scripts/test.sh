#!/bin/bash
# test.sh [SUITE…]: runs the named suites of tests/, or without a name the checks and every suite. The last line is
# "N passed, N failed"; the exit code is 1 when one failed.
# A suite is a folder of tests/: unit, attack/host, …
# TEST=path runs that file or folder alone, FILTER=text the tests whose name contains it.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
deno="$root/.deno/deno"
log=$(mktemp); trap 'rm -f "$log"' EXIT
passed=0; failed=0
# VMs and services share the machine's two cores badly; everything else runs in parallel.
parallel=" unit fuzz attack/host "

# run NAME PATH…: one suite. Its own closing line is counted; a suite that ends without one has failed.
run() {
  local name=$1; shift
  echo "── $name"
  local flags=(--no-check -A --quiet)
  [[ "$parallel" == *" $name "* ]] && flags+=(--parallel)
  [ -n "${FILTER:-}" ] && flags+=(--filter "$FILTER")
  NO_COLOR=1 "$deno" test "${flags[@]}" "$@" 2>&1 | tee "$log"
  local code=${PIPESTATUS[0]} line
  line=$(grep -E '^(ok|FAILED) \| [0-9]+ passed' "$log" | tail -1)
  passed=$((passed + $(sed -E 's/.*\| ([0-9]+) passed.*/\1/' <<<"${line:-| 0 passed}")))
  local bad; bad=$(sed -nE 's/.*\| ([0-9]+) failed.*/\1/p' <<<"$line")
  if [ "$code" != 0 ] && [ "${bad:-0}" = 0 ]; then bad=1; fi
  failed=$((failed + ${bad:-0}))
}

check() { # a step that passes or fails as a whole
  echo "── $1"; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

if [ -n "${TEST:-}" ]; then
  suite=$(sed -E 's#^(\./)?tests/([^/]+).*#\2#' <<<"$TEST")
  run "$suite" "$TEST"
else
  if [ $# = 0 ]; then
    check "types" scripts/types.sh
    check "lint" "$deno" lint --quiet
    check "format" "$deno" fmt --quiet --check
    set -- unit fuzz attack/host api compiled attack/vm e2e
  fi
  for suite in "$@"; do run "$suite" "tests/$suite/"; done
fi

echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
