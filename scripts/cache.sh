#!/bin/sh
# Fills the cache of the project's own Deno with all packages and translated modules. Does nothing while no file that it
# depends on is newer than the last time.
set -eu
cd "$(dirname "$0")/.."
: "${DENO_DIR:=$PWD/.deno/cache}"
export DENO_DIR
stamp="$DENO_DIR/.filled"
sources="deno.json deno.lock main.ts cmd lib ffi tests scripts"
if [ -e "$stamp" ] && [ .deno/deno -ot "$stamp" ]; then
  # Folders too: they change when a file is added or removed.
  # shellcheck disable=SC2086
  [ -n "$(find $sources -newer "$stamp" \( -name '*.ts' -o -name 'deno.*' -o -type d \) -print -quit)" ] || exit 0
fi
mkdir -p "$DENO_DIR"
touch "$stamp.new"
# shellcheck disable=SC2046
.deno/deno cache --quiet --frozen main.ts cmd/all.ts cmd/sbx/exec_rest.ts lib/ledger/worker.ts $(find cmd/guest tests scripts -name '*.ts')
mv -f "$stamp.new" "$stamp"
