#!/bin/sh
# Checks all types: the program's and the desktop page's apart, since the page has the browser's library. Examples for frameworks
# have types of packages that make sdk-tools installs.
set -eu
cd "$(dirname "$0")/.."
: "${DENO_DIR:=$PWD/.deno/cache}"
export DENO_DIR
# shellcheck disable=SC2046
.deno/deno check --quiet main.ts $(find cmd lib tests scripts sdk/typescript/src sdk/typescript/examples -name '*.ts' -not -path 'cmd/desktop/*' -not -path 'tests/unit/desktop/page/*' -not -path '*/examples/frameworks/*')
# shellcheck disable=SC2046
.deno/deno check --quiet cmd/desktop/main.tsx $(find tests/unit/desktop/page -name '*.ts')
