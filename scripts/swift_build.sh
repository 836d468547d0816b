#!/bin/bash
# swift_build.sh OUT: compiles ffi/SbxVM for Linux (scripts/swift.sh), where it boots QEMU, into OUT; once more with the address sanitizer;
# and checks the half for macOS against declarations of Apple's framework.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/../ffi/SbxVM"
strict=(-swift-version 6 -warnings-as-errors -module-name SbxVM -parse-as-library -I Sources/CSbxVM)
portable=(Sources/SbxVM/*.swift Sources/Qemu/*.swift)
# Deno unloads a library with the worker that loaded it; Swift's runtime and its threads cannot be unloaded.
shared=(-wmo -g -emit-library -Xlinker -z -Xlinker nodelete)

# Nothing to do for the same sources and compiler.
key=$(cat Package.swift ../../scripts/swift_build.sh $(find Sources Checks -type f | sort) <(swiftc --version 2>/dev/null) | sha256sum)
if [ "$(cat "$out/key" 2>/dev/null)" = "$key" ]; then exit; fi
rm -f "$out/key"

# What make dylib builds by, as Swift's package manager reads it.
swift package --scratch-path "$out/package" describe >/dev/null
echo "swift: types of the half for macOS"
swiftc -swift-version 6 -warnings-as-errors -parse-as-library -emit-module -module-name Virtualization \
  -emit-module-path "$out/Virtualization.swiftmodule" Checks/Virtualization/*.swift
swiftc "${strict[@]}" -D SBX_TYPES_OF_EVERY_MAC -I "$out" -typecheck Sources/SbxVM/*.swift Sources/Virtualization/*.swift Checks/*.swift
echo "swift: the library with QEMU"
swiftc "${strict[@]}" -typecheck "${portable[@]}" Checks/*.swift
swiftc "${strict[@]}" "${shared[@]}" -O -o "$out/libsbxvm.so.new" "${portable[@]}"
mv "$out/libsbxvm.so.new" "$out/libsbxvm.so"
echo "swift: the same with the address sanitizer"
swiftc "${strict[@]}" "${shared[@]}" -Onone -sanitize=address -o "$out/libsbxvm-asan.so" "${portable[@]}"
nm -D --defined-only "$out/libsbxvm.so" | awk '$3 ~ /^sbxvm_/ { print $3 }' | sort >"$out/symbols"
echo "$key" >"$out/key"
