#!/bin/bash
# `make demo`: a program in a real virtual machine, and the record of it. The Makefile has set everything up.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export PATH="$root/bin:$PATH"
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }

say sbx start
sbx start
say "sbx run --verbose -- sh -c 'echo \"hello from \$(uname -sr)\" | tee hello.txt'"
code=0
sbx run --verbose -- sh -c 'echo "hello from $(uname -sr)" | tee hello.txt' || code=$?
say sbx template make
sbx template make
echo
echo "exit code $code"
echo "The VM is gone; its record stays (sbx sessions). The service runs on in the background until: bin/sbx stop"
echo "Next: sbx create dev, sbx shell dev, sbx --help (put bin/ on your PATH)."
exit $code
