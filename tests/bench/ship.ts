/**
 * Shipping under traffic: the network's bench with its ledger, and a service's rounds to a receiver on
 * loopback beside it. `share` is the shipping's part of the processor time that the machine has, `of_traffic`
 * against client, upstream and proxy, which take all of it. REQUESTS chooses their number.
 */
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";
import { generateSigningKey } from "../../lib/release/mod.ts";
import { rounded } from "../helper/statistics.ts";
import type { Peer } from "./net/peer.ts";
import { HOST, startProgram, startUpstream } from "./net/program.ts";

const REQUESTS = Number(Deno.env.get("REQUESTS") ?? 50_000);
const CONNECTIONS = 32;
/** Requests before the measurement, which warm up every process. */
const WARM = 5_000;

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-ship-" });
const peers: Peer[] = [];
try {
  console.log(JSON.stringify(await measure()));
} finally {
  for (const peer of peers) await peer.stop();
  await Deno.remove(dir, { recursive: true });
}

async function measure() {
  const session = crypto.randomUUID();
  await Deno.writeTextFile(join(dir, "machine.key"), await generateSigningKey());
  const { port: upstreamPort, rootFile } = await startUpstream(peers, dir);
  const [upstream] = peers;
  const guest = await openCa({ dir });
  const proxy = startProgram(peers, "proxy.ts", [dir, `${upstreamPort}`, rootFile, session]);
  const client = startProgram(peers, "load.ts", []);
  const receiver = startProgram(peers, "ship.ts", [dir, session, "receive"]);
  const url = await receiver.line();
  const port = Number(await proxy.line());
  const run = async (count: number) => {
    const job = {
      port,
      host: HOST,
      caFile: guest.files.certificate,
      kind: "requests",
      connections: CONNECTIONS,
    };
    await client.write(JSON.stringify({ ...job, count }));
    return JSON.parse(await client.line()) as { seconds: number; failed: number };
  };
  await run(WARM);
  const shipper = startProgram(peers, "ship.ts", [dir, session]);
  await shipper.write(url);
  // The programs' start and the rows of the warming are not measured.
  await run(WARM);
  const cpu = () => Promise.all([upstream, proxy, client, receiver, shipper].map((peer) => peer.cpuTime()));
  const [before, began] = [await cpu(), performance.now()];
  const { failed } = await run(REQUESTS);
  await shipper.write("last");
  const sum = JSON.parse(await shipper.line()) as { events: number; segments: number; bytes: number };
  const seconds = (performance.now() - began) / 1000;
  const used = (await cpu()).map((at, index) => (at - before[index]) / 1e6);
  const [up, pr, cl, received, shipped] = used;
  const traffic = up + pr + cl;
  return {
    bench: "ship",
    load: Deno.loadavg()[0],
    cores: navigator.hardwareConcurrency,
    requests: REQUESTS,
    requests_per_s: rounded(REQUESTS / seconds, 0),
    traffic_cpu_s: rounded(traffic),
    shipping_cpu_s: rounded(shipped),
    receiving_cpu_s: rounded(received),
    share: rounded(shipped / (seconds * navigator.hardwareConcurrency), 4),
    of_traffic: rounded(shipped / traffic, 4),
    shipping_us_per_event: rounded(shipped * 1e6 / REQUESTS, 1),
    bytes_per_event: rounded(sum.bytes / sum.events, 0),
    segments: sum.segments,
    events: sum.events,
    failed,
  };
}
