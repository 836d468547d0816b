#!/bin/bash
# verify-mac.sh MANIFEST: twenty checks of sbx on a Mac, once: what only a Mac can tell
# (docs/design/macos.md). MANIFEST is the manifest.json of an image for arm64, built on Linux
# (scripts/image.sh arm64), with its files beside it. Prints a table, and exits with 1 when a check failed; a
# check that needs a failed one is skipped. Takes ten minutes. Works in a home of its own. verify-mac.sh
# --list: the checks and what each proves, on any system.
set -uo pipefail
cd "$(dirname "$0")/.."
list= manifest=
case "${1:-}" in
  --list) list=yes ;;
  "") echo "usage: scripts/verify-mac.sh MANIFEST, or --list" >&2; exit 2 ;;
  *) manifest=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") ;;
esac
if [ -z "$list" ]; then
  [ "$(uname -s)" = Darwin ] || { echo "verify-mac: this is $(uname -s); the checks are for a Mac (--list shows them)" >&2; exit 1; }
  [ -r "$manifest" ] || { echo "verify-mac: $manifest cannot be read; on Linux, scripts/image.sh arm64 builds .cache/image-arm64" >&2; exit 1; }
  work=$(mktemp -d /tmp/sbxv.XXXXXX)
  export SBX_HOME="$work/home" SBX_GATEWAY_PORT=0 NO_COLOR=1
  trap finish EXIT
fi
library=$PWD/bin/libsbxvm.dylib
deno=.deno/deno
failed=0 number=0 passed=" "

finish() {
  bin/sbx delete mac >/dev/null 2>&1
  bin/sbx status --json 2>/dev/null | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | xargs kill 2>/dev/null
  rm -rf "$work"
}

# check NEEDS WHAT PROVES COMMAND…: NEEDS is the number of the check that this one builds on, 0 for none.
check() {
  local needs=$1 what=$2 proves=$3 result began=$SECONDS
  shift 3
  number=$((number + 1))
  if [ -n "$list" ]; then
    printf '| %2d | %-62s | %s\n' "$number" "$what" "$proves"
    return
  fi
  if [ "$needs" != 0 ] && [[ "$passed" != *" $needs "* ]]; then
    result="skipped (needs $needs)"
  elif "$@" >"$work/log" 2>&1; then
    result=ok passed="$passed$number "
  else
    result=FAILED failed=$((failed + 1))
  fi
  printf '| %2d | %-62s | %-18s | %3d s | %s\n' "$number" "$what" "$result" $((SECONDS - began)) "$(tail -n 1 "$work/log" | cut -c 1-100)"
  [ "$result" != FAILED ] || cp "$work/log" "verify-mac-$number.log"
}

says() { [[ "$("${@:2}")" == *"$1"* ]]; }
probe() { SBX_VM_LIBRARY=$library SBX_TEST_IMAGE=$(dirname "$manifest")/arm64 "$deno" run -A --no-check scripts/verify_mac.ts "$@"; }
symbols() {
  diff <(sed -nE 's/^[a-z0-9_]+ (sbxvm_[a-z]+)\(.*/\1/p' ffi/SbxVM/Sources/CSbxVM/sbxvm.h | sort) \
    <(nm -gU "$library" | sed -n 's/.* _\(sbxvm_[a-z]*\)$/\1/p' | sort)
}
lives() {
  bin/sbx pause mac && bin/sbx resume mac && bin/sbx stop mac && bin/sbx start mac && bin/sbx exec mac -- true || return
  kill -9 "$(bin/sbx info mac --json | sed -n 's/.*"pid": \([0-9]*\).*/\1/p' | head -n 1)" && sleep 3
  says Defunct bin/sbx info mac && bin/sbx start mac
}
programs() {
  bin/sbx exec mac -- sh -c 'uname -m; head -c 8000000 /dev/zero' | wc -c | grep 80000 && bin/sbx exec mac -- grep -q ' / ' /proc/mounts
}
disk() { bin/sbx create mac && bin/sbx exec mac -- sh -c 'mount | grep vdb | grep ext4 && echo console >/dev/console' && sleep 1 && grep console "$SBX_HOME"/sessions/*/logs/console.log; }
workspace() {
  bin/sbx exec mac -- sh -c 'echo from the guest >/workspace/f' && bin/sbx cp mac:f "$work/f" && grep guest "$work/f" &&
    bin/sbx cp "$work/f" mac:sub/g && bin/sbx snapshots create mac first --json >"$work/made" && bin/sbx exec mac -- rm /workspace/f &&
    bin/sbx snapshots restore mac "$(sed -n 's/.*"id": "\([^"]*\)".*/\1/p' "$work/made" | head -n 1)" && bin/sbx exec mac -- cat /workspace/f
}

[ -n "$list" ] || echo "|  # | check                                                          | result             | time  | last line"
check 0 "macOS 13 or newer, on Apple silicon" "the framework and the guest's kernel can run" \
  bash -c '[ "$(sw_vers -productVersion | cut -d . -f 1)" -ge 13 ] && [ "$(uname -m)" = arm64 ] && sw_vers -productVersion'
check 0 "the processor can run virtual machines" "this is no virtual machine without nested virtualization" says 1 sysctl -n kern.hv_support
check 0 "a Swift 6 compiler" "5 can be tried" bash -c 'swift --version 2>&1 | grep -E "Swift version ([6-9]|[1-9][0-9])"'
check 0 "make setup: Deno and its packages" "scripts run with this system's tools" make setup
check 3 "make dylib: the library compiles against Apple's framework" "the declarations in Checks/Virtualization are Apple's" make dylib
check 5 "the library exports what sbxvm.h declares" "symbols survive the linker of macOS" symbols
check 5 "Deno has the entitlement for virtual machines" "signing by make dylib" \
  bash -c "codesign -d --xml --entitlements - '$deno' 2>/dev/null | grep com.apple.security.virtualization"
check 5 "the library loads, and says what this Mac can do" "Deno FFI; whether VMs can be saved (suspended); Rosetta; nested" probe abilities
check 4 "files: layouts, modes, links, /.vol, clones" "ffi/posix on macOS: the workspace, snapshots, landing, copies" probe files
check 4 "the sandbox: no file, no socket, no program" "the aggregator of MCP servers is confined" probe sandbox
check 4 "the image is installed in a home" "downloads, hashes, paths" bin/sbx update --assets --manifest "file://$manifest"
check 8 "sbx doctor: nothing of this Mac is wrong" "checks of macOS: version, processor, entitlement, library" bin/sbx doctor
check 8 "a machine boots, powers off, and both are told" "boot loader, console, power off, the delegate's end" probe floor
check 13 "pause, resume, stop, and a stop during the start" "states of the framework, canStop, the queue's rule" probe life
check 13 "a machine without a folder is saved and goes on in another" "save and restore (macOS 14), its identity" probe saved
check 11 "sbx create: vsock, folder, a formatted disk, a console" "the whole of a boot: init on a Mac's devices" disk
check 16 "programs: output, exit code, 8 MB over the vsock" "the bridge, with the framework's descriptors" programs
check 16 "the workspace: files both ways, a snapshot and back to it" "virtio-fs, ffi/posix with real changes" workspace
check 16 "the network: DNS and HTTPS by policy, with a record" "all of the network goes over the vsock" \
  bash -c 'bin/sbx exec mac -- curl -sS -o /dev/null https://example.com; bin/sbx net mac | grep example.com'
check 16 "pause, stop, start; its process is killed, and it starts again" "machines end with their process; records survive" lives
[ -z "$list" ] || exit 0
echo
[ "$failed" = 0 ] && echo "all checks passed or were skipped" || echo "$failed of $number failed; verify-mac-N.log has the output of each"
[ "$failed" = 0 ]
