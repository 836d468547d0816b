#!/bin/bash
# swift.sh COMMAND…: runs a command as root in Debian trixie with its Swift compiler, with this checkout in /src/main. Exits with 75
# and one line where that cannot be had; SBX_REQUIRE_SWIFT=1, as CI sets it, makes that an error.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)

lacking() {
  echo "swift: skipped: $1" >&2
  [ -z "${SBX_REQUIRE_SWIFT:-}" ] || exit 1
  exit 75
}

[ "$(uname -s)" = Linux ] || lacking "Debian's compiler runs on Linux; on a Mac, use make dylib and scripts/verify-mac.sh"
[ "$(id -u)" -eq 0 ] || lacking "entering Debian trixie is root's work: sudo make test-swift"
command -v mmdebstrap >/dev/null || lacking "mmdebstrap is missing: make deps"

# lld links.
install='
command -v swiftc >/dev/null && exit
echo "swift: installing the compiler in a Debian of its own (once, 3 GB)"
export DEBIAN_FRONTEND=noninteractive
{ apt-get -q update && apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends \
  swiftlang libc6-dev libstdc++-14-dev lld; } >/var/log/swift 2>&1 || { tail -n 5 /var/log/swift; exit 1; }
'
"$scripts/root.sh" trixie bash -euc "$install" >&2 || lacking "Debian trixie with swiftlang could not be made"
exec "$scripts/root.sh" trixie "$@"
