/**
 * Machine of a fleet beside the network's bench, in a process of its own: `ship.ts DIR SESSION` ships the
 * ledger of DIR to the receiver at the address that it reads, once a second, as a service does.
 * `ship.ts DIR SESSION receive` is that receiver, and prints its address and the machine's key.
 */
import { join } from "node:path";
import { stdin } from "node:process";
import { createInterface } from "node:readline";
import { enrol, makeToken, serveFleet } from "../../../lib/fleet/receive/mod.ts";
import { HttpTarget, Shipper } from "../../../lib/fleet/ship/mod.ts";
import { parseSigningKey } from "../../../lib/release/mod.ts";
import { formatPublicKey } from "../../../lib/release/signing/mod.ts";

/** Time between two rounds of a service, in `ms`. */
const ROUND_MS = 1000;

const [dir, session, half] = Deno.args;
const key = await parseSigningKey(await Deno.readTextFile(join(dir, "machine.key")), "the bench");
if (half === "receive") {
  const store = join(dir, "store");
  const { token } = await makeToken(store);
  await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "bench" });
  const server = await serveFleet({ dir: store, hostname: "127.0.0.1", port: 0 });
  console.log(`http://127.0.0.1:${server.addr.port}`);
  await new Promise(() => {});
}
const lines = createInterface({ input: stdin })[Symbol.asyncIterator]();
const url = String((await lines.next()).value);
const shipper = new Shipper({ dir: join(dir, "cursors"), key, target: new HttpTarget(url, key) });
const sum = { events: 0, segments: 0, bytes: 0 };
// A line asks for the last round: everything that was recorded before it is sent.
let isLast = false;
const asked = lines.next().then(() => isLast = true);
while (true) {
  const wasLast = isLast;
  const shipped = await shipper.ship(session, join(dir, "session.db"));
  for (const name of ["events", "segments", "bytes"] as const) sum[name] += shipped[name];
  if (wasLast) break;
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, ROUND_MS))]);
}
console.log(JSON.stringify(sum));
await new Promise(() => {});
