/**
 * One half of the fleet's way in a process of its own, for its memory: `ship DIR` sends all ledgers of a
 * folder to another folder, `receive DIR` takes what was sent. Prints the most memory that the process had.
 */
import { join } from "node:path";
import { enrol, makeToken, Receiver } from "../../lib/fleet/receive/mod.ts";
import { FolderTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { newKey } from "../helper/fleet.ts";

const [half, dir] = Deno.args;
const [sent, store] = [join(dir, "sent"), join(dir, "store-of-half")];

/** Files of segments, in their order. */
async function segmentsIn(folder: string): Promise<string[]> {
  const paths: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) paths.push(...await segmentsIn(path));
    else if (name.endsWith(".seg")) paths.push(path);
  }
  return paths.sort();
}

if (half === "ship") {
  const key = await newKey();
  await Deno.mkdir(sent);
  const { token } = await makeToken(store);
  await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "half" });
  const shipper = new Shipper({ dir: join(dir, "cursors-of-half"), key, target: new FolderTarget(sent) });
  for await (const { name } of Deno.readDir(join(dir, "ledgers"))) {
    await shipper.ship(name, join(dir, "ledgers", name, "session.db"));
  }
} else if (half === "receive") {
  const receiver = new Receiver(store);
  for (const path of await segmentsIn(sent)) await receiver.take(await Deno.readFile(path));
}
const peak = /VmHWM:\s*(\d+)/.exec(await Deno.readTextFile("/proc/self/status"))![1];
console.log(JSON.stringify({ peak_mb: Math.round(Number(peak) / 1024) }));
