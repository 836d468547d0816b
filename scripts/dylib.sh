#!/bin/bash
# dylib.sh OUT: `make dylib`. Builds libsbxvm.dylib on a Mac and signs it for this machine; the checkout's Deno, which loads it, gets the
# entitlement for virtual machines.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/$1
package=$PWD/ffi/SbxVM
die() {
  echo "dylib: $1" >&2
  exit 1
}

[ "$(uname -s)" = Darwin ] || die "libsbxvm.dylib is built on a Mac; make test-swift builds and tests the library here"
command -v swift >/dev/null || die "the Swift compiler is missing: xcode-select --install"
sources=("$package"/Sources/SbxVM/*.swift "$package"/Sources/Virtualization/*.swift)
swiftc -swift-version 6 -typecheck -parse-as-library -module-name SbxVM -I "$package/Sources/CSbxVM" "${sources[@]}" "$package"/Checks/*.swift
swift build --package-path "$package" -c release --product sbxvm \
  -Xlinker -sectcreate -Xlinker __TEXT -Xlinker __info_plist -Xlinker "$package/Info.plist"
mkdir -p "$(dirname "$out")"
install -m 0755 "$(swift build --package-path "$package" -c release --show-bin-path)/libsbxvm.dylib" "$out"
codesign --force --sign - "$out"
# Only a program with the entitlement may run machines. Its own signature is replaced on this machine.
codesign --force --sign - --entitlements "$package/sbx.entitlements" "$(realpath .deno/deno)"
echo "$out"
