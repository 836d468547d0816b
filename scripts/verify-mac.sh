#!/bin/bash
# verify-mac.sh: twenty checks of sbx on a Mac, once: what only a Mac can tell about ffi/SbxVM (docs/macos.md). Prints a table, and exits
# with 1 when a check failed; a check that needs a failed one is skipped. Takes ten minutes. Works in a home of its own.
set -uo pipefail
cd "$(dirname "$0")/.."
[ "$(uname -s)" = Darwin ] || { echo "verify-mac: this is $(uname -s); the checks are for a Mac" >&2; exit 1; }
work=$(mktemp -d /tmp/sbxv.XXXXXX)
export SBX_HOME="$work/home" SBX_GATEWAY_PORT=0 NO_COLOR=1
library=$PWD/bin/libsbxvm.dylib
deno=.deno/deno
failed=0 number=0 passed=" "

finish() {
  bin/sbx delete mac >/dev/null 2>&1
  bin/sbx status --json 2>/dev/null | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | xargs kill 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT

# check NEEDS WHAT COMMAND…: NEEDS is the number of the check that this one builds on, 0 for none.
check() {
  local needs=$1 what=$2 result began=$SECONDS
  shift 2
  number=$((number + 1))
  if [ "$needs" != 0 ] && [[ "$passed" != *" $needs "* ]]; then
    result="skipped (needs $needs)"
  elif "$@" >"$work/log" 2>&1; then
    result=ok passed="$passed$number "
  else
    result=FAILED failed=$((failed + 1))
  fi
  printf '| %2d | %-58s | %-18s | %3d s | %s\n' "$number" "$what" "$result" $((SECONDS - began)) "$(tail -n 1 "$work/log" | cut -c 1-100)"
  [ "$result" != FAILED ] || cp "$work/log" "verify-mac-$number.log"
}

says() { [[ "$("${@:2}")" == *"$1"* ]]; }
vm() { bin/sbx exec mac -- "$@"; }
probe() { SBX_VM_LIBRARY=$library SBX_TEST_IMAGE=$work/image "$deno" run -A --no-check scripts/verify_mac.ts "$@"; }
image() { mkdir -p "$work/image" && for name in vmlinuz initrd.img; do ln -sf "$SBX_HOME/assets"/*/"$name" "$work/image/$name" || return; done; }
symbols() {
  diff <(sed -nE 's/^[a-z0-9_]+ (sbxvm_[a-z]+)\(.*/\1/p' ffi/SbxVM/Sources/CSbxVM/sbxvm.h | sort) \
    <(nm -gU "$library" | sed -n 's/.* _\(sbxvm_[a-z]*\)$/\1/p' | sort)
}
killed() {
  kill -9 "$(bin/sbx info mac --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | head -n 1)" && sleep 3
  says Defunct bin/sbx info mac && bin/sbx start mac
}

echo "|  # | check                                                      | result             | time  | last line"
check 0 "macOS 13 or newer" bash -c '[ "$(sw_vers -productVersion | cut -d . -f 1)" -ge 13 ] && sw_vers -productVersion'
check 0 "the processor can run virtual machines" says 1 sysctl -n kern.hv_support
check 0 "a Swift 6 compiler" bash -c 'swift --version | grep -E "Swift version ([6-9]|[1-9][0-9])"'
check 0 "make setup: Deno and its packages" make setup
check 3 "make dylib: the library compiles against Apple's framework" make dylib
check 5 "the library exports what sbxvm.h declares" symbols
check 5 "Deno has the entitlement for virtual machines" bash -c "codesign -d --entitlements - '$deno' 2>&1 | grep com.apple.security.virtualization"
check 5 "the library loads, and says what this Mac can do" probe abilities
check 0 "make image: a guest image of this architecture" make image
check 9 "the image is installed in a home" bash -c "bin/sbx update --assets --manifest 'file://$PWD/.cache/image/manifest.json'"
check 10 "the image's kernel and initrd are where checks find them" image
check 11 "a machine boots, ends by itself, and both are told" probe floor
check 12 "pause, resume, stop, and a stop during the start" probe life
check 12 "a machine is saved and goes on in another (macOS 14)" probe saved
check 10 "sbx create: a VM with vsock, folder and disk is ready" bin/sbx create mac
check 15 "programs: output, exit code, 8 MB over the vsock" bash -c 'bin/sbx exec mac -- sh -c "uname -m; head -c 8000000 /dev/zero" | wc -c | grep 80000'
check 15 "the workspace: a file from the guest, on the host" bash -c 'bin/sbx exec mac -- sh -c "echo from the guest >/workspace/f" && bin/sbx cp mac:f "'"$work"'/f" && grep guest "'"$work"'/f"'
check 15 "the network: DNS and HTTPS by policy, with a record" bash -c 'bin/sbx exec mac -- curl -sS -o /dev/null https://example.com; bin/sbx net mac | grep example.com'
check 15 "pause and resume; stop and start" bash -c 'bin/sbx pause mac && bin/sbx resume mac && bin/sbx stop mac && bin/sbx start mac && bin/sbx exec mac -- true'
check 15 "its process is killed: the VM is Defunct, and starts again" killed
echo
[ "$failed" = 0 ] && echo "all checks passed or were skipped" || echo "$failed of $number failed; verify-mac-N.log has the output of each"
[ "$failed" = 0 ]
