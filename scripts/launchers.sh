#!/bin/sh
# Writes bin/: a launcher for every role, which runs the source under the project's own Deno with its role as argv[0].
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$root/bin"
for name in sbx sbx-service sbx-process sbx-gateway sbx-admin sbx-mcp-aggregator sbx-mcp; do
  cat >"$root/bin/$name" <<LAUNCHER
#!/bin/bash
root=\$(cd "\$(dirname "\$(readlink -f "\${BASH_SOURCE[0]}")")/.." && pwd)
export DENO_DIR="\$root/.deno/cache" DENO_NO_UPDATE_CHECK=1
[ -x "\$root/.deno/deno" ] && exec -a $name "\$root/.deno/deno" run -A --no-prompt --quiet --cached-only --config "\$root/deno.json" "\$root/main.ts" "\$@"
echo "$name: the project's own Deno is missing; make setup installs it" >&2
exit 125
LAUNCHER
  chmod +x "$root/bin/$name"
done
