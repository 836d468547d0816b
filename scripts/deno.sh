#!/bin/sh
# Installs the project's own Deno from npm into .deno/, with the registry that this machine's npm uses.
# Prints nothing when it is there already.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
version=2.9.6
deno="$root/.deno/deno"

if [ -x "$deno" ] && "$deno" --version 2>/dev/null | grep -q "^deno $version "; then exit 0; fi
if ! command -v npm >/dev/null 2>&1; then
  echo "npm is missing: installing it from Debian (Deno comes from the npm registry)"
  sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -q
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends npm
fi
echo "installing Deno $version from npm into .deno/"
mkdir -p "$root/.deno"
[ -f "$root/.deno/package.json" ] || echo '{"private": true}' >"$root/.deno/package.json"
npm install --prefix "$root/.deno" --silent --no-audit --no-fund "deno@$version" || {
  echo "setup: Deno $version could not be installed from npm; is the registry reachable (npm ping)?" >&2
  exit 1
}
# The program itself, not npm's wrapper around it, which would start Node first.
for program in "$root"/.deno/node_modules/@deno/*/deno; do ln -sfn "${program#"$root/.deno/"}" "$deno"; done
"$deno" --version >/dev/null
