#!/bin/bash
# test.sh [SUITE…]: runs the named suites of tests/, or without a name the checks and every suite. The last line is
# "N passed, N failed"; the exit code is 1 when one failed.
# A suite is a folder of tests/: unit, attack/host, …
# TEST=path runs that file or folder alone, FILTER=text the tests whose name contains it.
# A file of the suites in $again in which a test failed is run once more, alone. Both runs are shown, and what passed only the
# second time is named before the last line.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ -n "${SBX_TEST_RUN:-}" ] || exec scripts/contained.sh scripts/test.sh "$@"

# Tests read no variable of the person who runs them, except what names the place and the time limits of things to test with.
export SBX_TEST_ASSETS_DIR=${SBX_TEST_ASSETS_DIR:-${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets}}
for name in $(compgen -e SBX_); do
  case $name in SBX_TEST_* | SBX_REQUIRE_* | SBX_FLEET_ENGINES | SBX_NATS_SERVER | SBX_VM_LIBRARY | SBX_TIME_FACTOR) ;; *) unset "$name" ;; esac
done
deno="$root/.deno/deno"
log=$(mktemp); trap 'rm -f "$log"' EXIT
passed=0; failed=0; unreliable=
# VMs and services share the machine's two cores badly; everything else runs in parallel.
parallel=" unit fuzz attack/host "
# What boots VMs and waits for processes takes a machine that stood still for some seconds for a fault. Attacks are not run again:
# one that gets through once is a hole.
again=" api compiled e2e "
[ -z "${TEST:-}${FILTER:-}" ] || again=

# sharers PATH…: test files that change the environment or the folder of their process, or count its descriptors: files in
# parallel are threads of one process.
sharers() {
  local change='Deno\.(env\.(set|delete)|chdir)\(|/proc/self/fd' helpers
  helpers=$(grep -lE "$change" tests/helper/*.ts | sed 's#.*/#helper/#' | paste -sd'|')
  grep -rlE --include='*_test.ts' "$change|${helpers:-$change}" "$@"
}

# run NAME PATH…: one suite. Its own closing line is counted; a suite that ends without one has failed.
run() {
  local name=$1; shift
  echo "── $name"
  local flags=(--no-check -A --quiet) alone=
  [ -n "${FILTER:-}" ] && flags+=(--filter "$FILTER")
  if [[ "$parallel" == *" $name "* ]]; then
    alone=$(sharers "$@")
    # Paths of tests hold no spaces.
    # shellcheck disable=SC2086
    [ -z "$alone" ] || run_files $alone
    flags+=(--parallel --permit-no-files ${alone:+--ignore="$(paste -sd, <<<"$alone")"})
  fi
  run_files "$@"
}

# run_files PATH…: with $flags of the suite $name.
run_files() {
  NO_COLOR=1 "$deno" test "${flags[@]}" "$@" 2>&1 | tee "$log"
  count "${PIPESTATUS[0]}"
  local good=$good bad=$bad
  [ "$bad" = 0 ] || [[ "$again" != *" $name "* ]] || once_more "${flags[@]}"
  passed=$((passed + good)); failed=$((failed + bad))
}

# count CODE: sets good and bad to the tests of the run in $log that ended with CODE.
count() {
  local line; line=$(grep -E '^(ok|FAILED) \| [0-9]+ passed' "$log" | tail -1)
  good=$(sed -E 's/.*\| ([0-9]+) passed.*/\1/' <<<"${line:-| 0 passed}")
  bad=$(sed -nE 's/.*\| ([0-9]+) failed.*/\1/p' <<<"$line"); bad=${bad:-0}
  if [ "$1" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
}

# once_more FLAG…: the files in which a test of the run in $log failed, once more. Where none is named, the run itself broke: that stays.
# Paths of tests hold no spaces.
# shellcheck disable=SC2086
once_more() {
  local files first=$bad before=$good
  files=$(sed '1,/^ FAILURES $/d' "$log" | grep -oE '\./tests/[^ :]+_test\.ts' | sort -u)
  [ -n "$files" ] || return 0
  echo "── once more:" $files
  NO_COLOR=1 "$deno" test "$@" $files 2>&1 | tee "$log"
  count "${PIPESTATUS[0]}"
  [ "$bad" != 0 ] || unreliable+="$files"$'\n'
  [ "$bad" -le "$first" ] || bad=$first
  good=$((before + first - bad))
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
    set -- unit fuzz attack/host api compiled attack/vm attack/cve e2e
  fi
  for suite in "$@"; do run "$suite" "tests/$suite/"; done
fi

echo
[ -z "$unreliable" ] || printf 'failed, and passed when run once more: %s\n' $unreliable
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
