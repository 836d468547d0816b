/**
 * The proxy of the network's bench, in a process of its own: the real gate with its ledger, the real broker, and TCP in
 * place of the guest's streams. Prints its port, then a JSON line with its memory for each line that it reads.
 */
import { join } from "node:path";
import { stdin } from "node:process";
import { createInterface } from "node:readline";
import { openCa } from "../../../lib/ca/mod.ts";
import { CredentialBroker, CredentialStore } from "../../../lib/credential/mod.ts";
import { BUILT_IN_PRICES, ModelReader } from "../../../lib/model/mod.ts";
import { NetProxy } from "../../../lib/net/mod.ts";
import { SessionGate } from "../../../lib/session/gate.ts";

const [dir, upstreamPort, rootFile] = Deno.args;
const ADDRESS = "203.0.113.7";

const nobody = { rules: [], packs: [], mcp: {} };
const gate = await SessionGate.open({
  paths: { ledger: join(dir, "session.db") },
  record: { id: "bench", profile_id: "code", profile_revision: "1.0.0" },
  contract: {
    profile: { ...nobody, providers: [] },
    corp: nobody,
    detection: { user: [], runtime: [] },
    network: { resolvers: [], overrides: [] },
    ledger: { on_full: "block" },
  },
  tell() {},
  scrub: (text) => text,
  onLedgerFailure(error) {
    throw error;
  },
});
const proxy = new NetProxy({
  gate,
  ca: await openCa({ dir }),
  models: new ModelReader(() => BUILT_IN_PRICES),
  names: {
    agrees: (_, address) => address === ADDRESS,
    nameOf: () => undefined,
    lookup: () => Promise.resolve([ADDRESS]),
  },
  broker: await CredentialBroker.open({
    store: new CredentialStore(join(dir, "credentials", "store.json")),
    providers: ["anthropic"],
  }),
  target: () => ({ hostname: "127.0.0.1", port: Number(upstreamPort) }),
  caCerts: [await Deno.readTextFile(rootFile)],
});

const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
console.log(listener.addr.port);
accept();
for await (const _ of createInterface({ input: stdin })) {
  console.log(JSON.stringify({ rss: Deno.memoryUsage().rss, ...proxy.size, events: gate.ledger.sequence }));
}
proxy.close();
await gate.close();
Deno.exit(0);

async function accept(): Promise<void> {
  for await (const conn of listener) {
    conn.setNoDelay(true);
    const open = { host_ip: ADDRESS, port: 443, process_name: "bench", pid: 1 };
    proxy.serve(conn, open, new Uint8Array()).catch((error) => console.error(error));
  }
}
