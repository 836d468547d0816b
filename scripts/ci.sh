#!/bin/bash
# ci.sh: what action.yml and the guides of docs/guides/ci.md run on a build server. Settings come from the environment:
# SBX_CI_COMMAND (required), SBX_CI_FROM_DIR, SBX_CI_IMAGE, SBX_CI_PROFILE, SBX_CI_FAIL_ON, SBX_CI_POLICY_TESTS, SBX_CI_OUT,
# SBX_CI_TEMPLATE (not empty: the home has no template, and is cached: one is made for the next job).
# It uses the sbx of PATH, or this clone's, for which it makes the image once. The exit code is that of `sbx ci`, or 1 where
# that succeeded and a policy test failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${SBX_CI_OUT:-sbx-ci} profile=${SBX_CI_PROFILE:-code}
# A commit can bring links there, by which files of this machine would be written or published.
if [ -L "$out" ] || [ -n "$(find "$out" -type l -print -quit 2>/dev/null)" ]; then
  echo "ci.sh: $out is or has a symbolic link: remove it, or name another folder in SBX_CI_OUT" >&2
  exit 2
fi
[ -z "${GITHUB_OUTPUT:-}" ] || echo "out=$out" >>"$GITHUB_OUTPUT"
[ -n "${SBX_CI_COMMAND:-}" ] || { echo "ci.sh: SBX_CI_COMMAND is empty: name the line to run in the VM" >&2; exit 2; }

if ! sbx=$(command -v sbx); then
  sbx="$root/bin/sbx"
  if [ -e "${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets}/manifest.json" ]; then RUNS_ONLY=1 make -s -C "$root" setup deps; else make -s -C "$root" image; fi
fi
mkdir -p "$out"
# The daemons of this job end with it, unless another job of this home goes on, or they ran before the first one. Each job
# holds a shared lock; who gets it alone is the first, or the last.
home=${SBX_HOME:-$HOME/.sbx}
mkdir -p -m 0700 "$home"
# Of another processor it is removed, and the cache keeps what it has: only a home without any gets one.
has_template=$(find "${SBX_TEMPLATES_DIR:-$home/templates}" -name template.json -print -quit 2>/dev/null || true)
exec 8>>"$home/ci.lock"
if flock -n -x 8; then
  rm -f "$home/ci.keep"
  # Its exit code is 1 where nothing runs.
  { "$sbx" status 2>/dev/null 8>&- || true; } | grep -q '^service  *not running' || touch "$home/ci.keep"
fi
flock -s 8
end() {
  flock -u 8
  if flock -n -x 8 && [ ! -e "$home/ci.keep" ]; then "$sbx" stop >/dev/null 2>&1 8>&- || true; fi
}
trap end EXIT

policy=0
if [ -n "${SBX_CI_POLICY_TESTS:-}" ]; then
  "$sbx" policy test "$SBX_CI_POLICY_TESTS" --profile "$profile" --junit "$out/policy.xml" 8>&- || policy=1
fi
if [ -n "${SBX_CI_TEMPLATE:-}" ] && [ -z "${SBX_CI_IMAGE:-}$has_template" ]; then
  "$sbx" template make "$profile" >/dev/null 8>&- || echo "ci.sh: without a template VMs boot, which takes longer" >&2
fi
arguments=(--profile "$profile" --fail-on "${SBX_CI_FAIL_ON:-high}" --out "$out")
[ -z "${SBX_CI_FROM_DIR:-}" ] || arguments+=(--from-dir "$SBX_CI_FROM_DIR")
[ -z "${SBX_CI_IMAGE:-}" ] || arguments+=(--image "$SBX_CI_IMAGE")
# A build server ends this script alone, which passes it on: `sbx ci` then removes its VM.
code=0
"$sbx" ci "${arguments[@]}" -- sh -c "$SBX_CI_COMMAND" 8>&- &
ci=$!
trap 'kill "$ci" 2>/dev/null || true' TERM HUP INT
wait "$ci" || code=$?
while kill -0 "$ci" 2>/dev/null; do code=0; wait "$ci" || code=$?; done
[ "$code" != 0 ] || code=$policy
exit "$code"
