#!/bin/bash
# Builds the guest image of the profile `code` into .cache/image unless it is there and made from the same sources,
# then installs it into the assets of this user's home.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/.cache/image"
# What an image is made of, beside Debian's packages.
key=$(cat "$root"/cmd/guest/*/*.ts "$root"/lib/guest/*.ts "$root"/lib/base/wire/*.ts "$root"/lib/image/*.ts "$root"/ffi/libc/{netlink,pty,tcp}.ts "$root"/lib/profile/builtin.ts "$root"/scripts/deno.sh | sha256sum | cut -c1-16)
if [ ! -f "$out/manifest.json" ] || [ "$(cat "$root/.cache/image.key" 2>/dev/null)" != "$key" ]; then
  echo "building the guest image of the profile code (about a minute, once)"
  mkdir -p "$root/.cache"
  "$root/bin/sbx-admin" image build --profile code --arch "$(uname -m | sed s/aarch64/arm64/)" "$out"
  echo "$key" >"$root/.cache/image.key"
fi
"$root/bin/sbx" update --assets --manifest "file://$out/manifest.json"
