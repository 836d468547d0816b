#!/bin/bash
# The published MCP conformance suite, as server against the guest's endpoint and as client against the aggregator's client
# (docs/design/mcp-conformance.md). Fails when a scenario fails, or passes, that tests/conformance/known.yml
# does not say it of. No part of `make test`: the suite comes from npm at each run and wants Node 22.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export DENO_DIR="$root/.deno/cache" DENO_NO_UPDATE_CHECK=1 NO_COLOR=1
deno=("$root/.deno/deno" run -A --quiet --cached-only --config "$root/deno.json")
suite=(npx --yes --package node@22.23.3 --package @modelcontextprotocol/conformance@0.1.16 -- conformance)
known="$root/tests/conformance/known.yml"
work=$(mktemp -d); failed=0
trap 'kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"

"${deno[@]}" "$root/tests/conformance/endpoint.ts" >url & server=$!
for _ in $(seq 100); do [ -s url ] && break; sleep 0.1; done
[ -s url ] || { echo "conformance: the endpoint did not start" >&2; exit 1; }

echo "── server: the guest's endpoint"
"${suite[@]}" server --url "$(cat url)" --suite all --expected-failures "$known" 2>&1 |
  sed -n '/=== SUMMARY ===/,$p' || failed=1

echo "── client: the aggregator"
auth=(metadata-default metadata-var{1,2,3} basic-cimd scope-from-www-authenticate scope-from-scopes-supported
  scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-{basic,post,none} pre-registration)
for scenario in initialize tools_call sse-retry elicitation-sep1034-client-defaults "${auth[@]/#/auth/}"; do
  if "${suite[@]}" client --scenario "$scenario" --expected-failures "$known" \
    --command "${deno[*]} $root/tests/conformance/client.ts" >out 2>&1; then
    echo "as expected: $scenario ($(grep -m1 '^Passed:' out))"
  else
    failed=1; cat out
  fi
done
exit "$failed"
