/**
 * Every place of the host that opens a connection, and whose it is. sbx's own parts talk to each other
 * without a proxy; what goes out to the world goes by HostNetwork, which is the one place that knows proxies.
 */
import { assertEquals } from "@std/assert";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/** Calls that connect, or make a client that does. Methods of objects have a dot before them. */
const CONNECTS =
  /(?<![.\w#]|async )(?:fetch|Deno\.connect(?:Tls|Quic)?|new WebSocket|Deno\.createHttpClient)\(/;
const COMMENT = /^\s*(?:\*|\/\/|\/\*)/;

/** `itself`: a part of sbx on this machine. `world`: through the proxy where there is one. */
const PLACES: Record<string, "itself" | "world" | string> = {
  "cmd/aggregator/main.ts": "itself",
  "cmd/desktop/api/client.ts": "itself",
  "cmd/desktop/api/sign_in.ts": "itself",
  "cmd/gateway/main.ts": "itself",
  "cmd/sbx/admin/bench.ts": "itself",
  "cmd/sbx/e2b/server.ts": "itself",
  "cmd/sbx/vm/stop.ts": "itself",
  "lib/client/client.ts": "itself",
  "lib/client/remote/ssh.ts": "itself",
  "lib/support/debug/state.ts": "itself",
  "lib/fleet/receive/front.ts": "itself",
  "lib/client/gateway/socket.ts": "itself",
  "lib/client/gateway/upstream.ts": "itself",
  "lib/session/ipc/calls.ts": "itself",
  "lib/network/guest/terminator.ts": "itself",
  "lib/service/vm/launch.ts": "itself",
  "lib/machine/vm/qmp.ts": "itself",
  "lib/machine/vm/machine.ts": "itself",
  "lib/network/upstream/connect.ts": "world",
  "lib/base/proxy/direct.ts": "itself",
  "lib/base/proxy/host_network.ts": "world",
  "lib/base/proxy/pac.ts": "the PAC file that names the proxies",
  "lib/base/proxy/tunnel.ts": "world",
  "lib/client/remote/https.ts":
    "another machine's gateway by HTTPS, through the environment's proxy: the token is inside TLS",
  "lib/base/ssh/agent.ts": "an SSH agent of this machine, by its socket",
  "lib/network/dns/resolver.ts": "resolvers, which no HTTP proxy serves",
  "lib/support/doctor/host/machine.ts": "the proxy itself, to see whether it is there",
  "lib/ledger/feed/syslog.ts": "a syslog receiver, which no HTTP proxy serves",
  "lib/fleet/nats.ts": "a NATS server, which no HTTP proxy serves",
};

Deno.test("every place that opens a connection is in this table, with whose connection it is", async () => {
  const found: string[] = [];
  for (const path of [...await codeBelow("cmd"), ...await codeBelow("lib")]) {
    if (/^cmd\/guest\/|^lib\/machine\/guest\//.test(path)) continue;
    const lines = (await Deno.readTextFile(fromRoot(path))).split("\n");
    const handed = lines.some((line) => /^import .*\bfetch\b|\(fetch\b|, fetch\b|fetch: /.test(line));
    if (
      lines.some((line) =>
        CONNECTS.test(line) && !COMMENT.test(line) && !(handed && /(?<!\.)\bfetch\(/.test(line))
      )
    ) found.push(path);
  }
  assertEquals(found.sort(), Object.keys(PLACES).sort());
});
