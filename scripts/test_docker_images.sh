#!/bin/bash
# Images of tests/docker in the assets of this user's home, of its own profile and of the builder: built where they are missing,
# or of another profile or other guest programs, which `make image` has written the key of.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
assets=${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets}
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir -p "$home/profiles/engines"
cp "$root/tests/docker/engines.toml" "$home/profiles/engines/profile.toml"
export SBX_HOME=$home SBX_ASSETS_DIR=$assets
for profile in engines builder; do
  [ $profile = engines ] && file=tests/docker/engines.toml || file=lib/config/profile/builtin/$profile.toml
  of=$(cat "$root/.cache/image.key" "$root/$file" | sha256sum)
  made=$assets/$profile.made-of
  [ "$of" = "$(cat "$made" 2>/dev/null)" ] && "$root/bin/sbx" image list | grep -q "^$profile  *$profile " && continue
  "$root/bin/sbx" image build $profile
  echo "$of" >"$made"
done
