#!/bin/bash
# `make test`: every test, real VMs included. Ends with "N passed, N failed" and fails when one failed.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
deno="$root/.deno/deno"
log=$(mktemp); trap 'rm -f "$log"' EXIT
passed=0; failed=0

# run NAME COMMAND…: one suite; its own closing line is counted, and a suite that ends without one has failed.
run() {
  echo "── $1"; shift
  NO_COLOR=1 "$@" 2>&1 | tee "$log"
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

check "types" "$deno" check --quiet main.ts $(find cmd lib tests scripts -name '*.ts')
check "lint" "$deno" lint --quiet
check "format" "$deno" fmt --quiet --check
for suite in ${SUITES:-unit fuzz api compiled e2e}; do
  [ -n "$(find "tests/$suite" -name '*_test.ts' 2>/dev/null)" ] || continue
  run "$suite" "$deno" test --no-check -A --quiet "tests/$suite/"
done

echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
