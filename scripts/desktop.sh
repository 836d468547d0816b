#!/bin/sh
# desktop.sh [OUT]: bundles the desktop page of cmd/desktop into OUT, .cache/desktop by default. Does nothing while no file that
# it depends on is newer than the last time.
set -eu
cd "$(dirname "$0")/.."
: "${DENO_DIR:=$PWD/.deno/cache}"
export DENO_DIR DENO_NO_UPDATE_CHECK=1
out=${1:-.cache/desktop}
if [ -e "$out/index.html" ] && [ .deno/deno -ot "$out/index.html" ]; then
  [ -n "$(find deno.json deno.lock scripts/desktop.sh scripts/desktop_pack.ts cmd/desktop lib/base lib/event lib/policy/ask lib/client/api -newer "$out/index.html" -print -quit)" ] || exit 0
fi
rm -rf "$out.new"
mkdir -p "$out.new"
.deno/deno bundle --quiet --minify --code-splitting --platform browser --outdir "$out.new" cmd/desktop/main.tsx
version=$(sed -n 's#.*"npm:@xterm/xterm@\([0-9.]*\)".*#\1#p' deno.json)
xterm=$(find "$DENO_DIR/npm" -path "*/@xterm/xterm/$version/css/xterm.css")
cat cmd/desktop/style/*.css $xterm >"$out.new/style.css"
cp cmd/desktop/icon.svg "$out.new/"
cp cmd/desktop/index.html "$out.new/"
.deno/deno run --quiet --no-check --allow-read --allow-write scripts/desktop_pack.ts "$out.new"
rm -rf "$out"
mv "$out.new" "$out"
