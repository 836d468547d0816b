#!/bin/bash
# image.sh [ARCH]: builds the guest image of the profile `code` into .cache/image unless it is there and made from the same
# sources, then installs it into the assets of this user's home. With ARCH, the one for that architecture into
# .cache/image-ARCH; that is not installed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
arch=${1:-$(uname -m | sed s/aarch64/arm64/)}
out="$root/.cache/image${1:+-$1}"
# What an image is made of, beside Debian's packages: folders, so that a file that moves within one does not matter.
key=$(cd "$root" && find cmd/guest ffi/libc lib/{base,event,machine,support/doctor,publish/image,release/sbom,config/profile} \
  scripts/deno.sh -type f | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-16)
if [ ! -f "$out/manifest.json" ] || [ "$(cat "$out.key" 2>/dev/null)" != "$key" ]; then
  echo "building the guest image of the profile code for $arch (about a minute, once)"
  mkdir -p "$root/.cache"
  "$root/bin/sbx-admin" image build --profile code --arch "$arch" "$out"
  echo "$key" >"$out.key"
fi
[ -z "${1:-}" ] || exit 0

# Whether the assets of this user's home are the built ones, by manifest, name and size: reading 600 MB to compare their
# content is left to the boot of a VM, which does it in any case.
is_installed() {
  local assets=${SBX_ASSETS_DIR:-${SBX_HOME:-$HOME/.sbx}/assets} text hash size file
  cmp -s "$out/manifest.json" "$assets/manifest.json" || return
  text=$(<"$out/manifest.json")
  while [[ $text =~ \"hash\":\ \"([0-9a-f]{16})[0-9a-f]*\",[[:space:]]*\"size\":\ ([0-9]+)(.*) ]]; do
    hash=${BASH_REMATCH[1]} size=${BASH_REMATCH[2]} text=${BASH_REMATCH[3]}
    for file in "$assets"/*-"$hash"*; do [[ -f $file && $(stat -Lc %s "$file") == "$size" ]] || return; done
  done
}
# Another checkout may have installed a later one: this one is meant.
is_installed || "$root/bin/sbx" update --assets --allow-downgrade --manifest "file://$out/manifest.json"
