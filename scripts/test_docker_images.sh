#!/bin/bash
# Images of tests/docker that the assets of this user's home do not have: of its own profile, and of the builder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
assets=${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir -p "$home/profiles/engines"
cp "$root/tests/docker/engines.toml" "$home/profiles/engines/profile.toml"
export SBX_HOME=$home SBX_ASSETS_DIR=$assets
for profile in engines builder; do
  "$root/bin/sbx" image list | grep -q "^$profile  *$profile " || "$root/bin/sbx" image build "$profile"
done
