/**
 * Proxy of the network's bench, in a process of its own: the real gate with its ledger, the real broker,
 * and TCP in place of the guest's streams. Prints its port, then a JSON line with its memory and processor
 * time for each line that it reads.
 */
import { join } from "node:path";
import { cpuUsage, stdin } from "node:process";
import { createInterface } from "node:readline";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { CredentialBroker, CredentialStore } from "../../../lib/credential/mod.ts";
import { SessionGate } from "../../../lib/session/gate/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { BUILT_IN_PRICES, ModelReader } from "../../../lib/network/model/mod.ts";
import { NetProxy } from "../../../lib/network/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

const [dir, upstreamPort, rootFile, sessionId = "bench"] = Deno.args;
const ADDRESS = "203.0.113.7";

const ledger = await Ledger.open(join(dir, "session.db"), {
  sessionId,
  onError(error) {
    throw error;
  },
});
const broker = await CredentialBroker.open({
  store: new CredentialStore(join(dir, "credentials", "store.json")),
  providers: ["anthropic"],
});
const gate = new SessionGate({
  session: { id: sessionId, profile_id: "code", profile_revision: "1.0.0" },
  policy: compilePolicy([]),
  detections: [],
  recorder: ledger,
  tell() {},
  scrubValue: (value) => broker.scrubValue(value),
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
  broker,
  dialOverride: () => ({ hostname: "127.0.0.1", port: Number(upstreamPort) }),
  caCerts: [await Deno.readTextFile(rootFile)],
});

const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
console.log(listener.addr.port);
accept();
for await (const _ of createInterface({ input: stdin })) {
  const { user, system } = cpuUsage();
  const used = { rss: Deno.memoryUsage().rss, cpu_us: user + system };
  console.log(JSON.stringify({ ...used, ...proxy.size, events: ledger.sequence }));
}
proxy.close();
gate.close();
await ledger.close();
Deno.exit(0);

async function accept(): Promise<void> {
  for await (const conn of listener) {
    conn.setNoDelay(true);
    const open = { host_ip: ADDRESS, port: 443, process_name: "bench", pid: 1 };
    proxy.serve(conn, open, new Uint8Array()).catch((error) => console.error(error));
  }
}
