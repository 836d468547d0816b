#!/bin/sh
# Writes bin/: a launcher for every role, which runs the source under the project's own Deno with its role as argv[0].
# It starts no other program where the path of the launcher is plain: each takes a millisecond or two.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$root/bin"
for name in sbx sbx-service sbx-process sbx-gateway sbx-admin sbx-mcp-aggregator sbx-mcp sbx-tray; do
  cat >"$root/bin/$name.new" <<LAUNCHER
#!/bin/bash
self=\${BASH_SOURCE[0]}
[[ ! -L \$self ]] || self=\$(readlink -f "\$self")
root=\${self%/bin/$name}
[[ \$root == /* && \$root != *[./]/* ]] || root=\$(cd "\$(dirname "\$self")/.." && pwd)
export DENO_DIR="\$root/.deno/cache" DENO_NO_UPDATE_CHECK=1
[ -x "\$root/.deno/deno" ] && exec -a $name "\$root/.deno/deno" run -A --no-prompt --quiet --cached-only --config "\$root/deno.json" "\$root/main.ts" "\$@"
echo "$name: the project's own Deno is missing; make setup installs it" >&2
exit 125
LAUNCHER
  chmod +x "$root/bin/$name.new"
  mv -f "$root/bin/$name.new" "$root/bin/$name"
done
