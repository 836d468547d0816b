#!/bin/sh
# Fills the cache of the project's own Deno with all packages and translated modules. Does nothing while no file that it
# depends on is newer than the last time.
set -eu
cd "$(dirname "$0")/.."
: "${DENO_DIR:=$PWD/.deno/cache}"
# The authorities that this machine trusts, such as that of its proxy, beside Deno's own list.
: "${DENO_TLS_CA_STORE:=mozilla,system}"
export DENO_DIR DENO_TLS_CA_STORE
stamp="$DENO_DIR/.filled"
sources="deno.json deno.lock main.ts cmd lib ffi tests scripts"
if [ -e "$stamp" ] && [ .deno/deno -ot "$stamp" ]; then
  # Folders too: they change when a file is added or removed.
  # shellcheck disable=SC2086
  [ -n "$(find $sources -newer "$stamp" \( -name '*.ts' -o -name '*.tsx' -o -name 'deno.*' -o -type d \) -print -quit)" ] || exit 0
fi
mkdir -p "$DENO_DIR"
# Of its own name: another make may fill it too.
new="$stamp.$$"
touch "$new"
.deno/deno cache --quiet --frozen cmd/desktop/main.tsx
# shellcheck disable=SC2046
.deno/deno cache --quiet --frozen main.ts cmd/all.ts lib/ledger/worker.ts lib/ledger/read/rest_worker.ts lib/machine/live/worker.ts lib/base/confine/launcher_worker.ts $(find cmd/guest tests scripts -name '*.ts')
mv -f "$new" "$stamp"
