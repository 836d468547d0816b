#!/bin/bash
# test_swift.sh: `make test-swift`. Builds ffi/SbxVM in Debian trixie, checks the types of its half for macOS, drives the library by
# Deno, once more under the address sanitizer, and runs VMs through it as users do: QEMU behind the interface that a Mac's VMs have.
# TEST=path runs that file alone, with the library.
set -euo pipefail
cd "$(dirname "$0")/.."
test='
build=/src/main/.cache/swift
scripts/swift_build.sh $build
scripts/deps.sh
export SBX_TEST_IMAGE=/src/main/.cache/image/$(uname -m) DENO_DIR=/src/main/.deno/cache
export SBX_HOME=$(mktemp -d)
trap "rm -rf $SBX_HOME" EXIT
export SBX_TEST_ASSETS_DIR=$SBX_HOME/assets SBX_VM_LIBRARY=$build/libsbxvm.so
bin/sbx update --assets --manifest file:///src/main/.cache/image/manifest.json >/dev/null
if [ -n "${1:-}" ]; then TEST=$1 scripts/test.sh; exit; fi

declared=$(sed -nE "s/^[a-z0-9_]+ (sbxvm_[a-z]+)\(.*/\1/p" ffi/SbxVM/Sources/CSbxVM/sbxvm.h | sort)
[ "$declared" = "$(cat $build/symbols)" ] || { echo "swift: the library does not export what sbxvm.h declares" >&2; exit 1; }
TEST=tests/swift scripts/test.sh
echo "── swift, with the address sanitizer"
sanitizer=$(echo /usr/libexec/swift/lib/clang/*/lib/linux/libclang_rt.asan-x86_64.so)
# What Deno itself leaves is no leak of the library.
SBX_VM_LIBRARY=$build/libsbxvm-asan.so ASAN_OPTIONS=detect_leaks=0:handle_segv=0 LD_PRELOAD=$sanitizer \
  .deno/deno test -A --quiet --no-check tests/swift
echo "── swift, the checks of verify-mac.sh"
for check in abilities floor life saved; do .deno/deno run -A --quiet --no-check scripts/verify_mac.ts $check; done
# Life cycle, suspension, network, rules, ports, programs in the background; snapshots are steps of the first.
export SBX_REQUIRE_SUSPEND=1
for name in vm suspend net_guest policy ports jobs; do TEST=tests/e2e/${name}_test.ts scripts/test.sh; done
'
code=0
scripts/contained.sh scripts/swift.sh bash -euc "$test" test "${TEST:-}" || code=$?
[ "$code" = 75 ] || exit "$code"
