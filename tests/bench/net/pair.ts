/**
 * Two checkouts' network paths against each other, on requests without a secret: CPU time and throughput of
 * the first one's proxy divided by the second one's. They take turns, with the same client and upstream, so
 * that what else the machine does meets both. Prints one JSON object; the ratios are medians of the rounds.
 *
 *     deno run -A tests/bench/net/pair.ts CHECKOUT BASELINE [ROUNDS] [REQUESTS]
 */
import { join, resolve } from "node:path";
import { openCa } from "../../../lib/network/ca/mod.ts";
import { median, rounded } from "../../helper/statistics.ts";
import type { Job, Result } from "./load.ts";
import type { Peer } from "./peer.ts";
import { HOST, startProgram, startUpstream } from "./program.ts";

const CONNECTIONS = 32;
/** Requests of each side before the first round. */
const WARM_UP = 20_000;

/** A proxy under test. */
interface Side {
  proxy: Peer;
  port: number;
  caFile: string;
}

/** What one round cost one side. */
interface Cost {
  /** CPU time of the proxy for each request, in `µs` */
  cpu: number;
  /** requests per second */
  rate: number;
}

const [checkout, baseline, rounds = "15", requests = "8000"] = Deno.args;
if (!baseline) throw new Error("usage: pair.ts CHECKOUT BASELINE [ROUNDS] [REQUESTS]");
const dir = await Deno.makeTempDir({ prefix: "sbx-bench-pair-" });
const peers: Peer[] = [];
try {
  console.log(JSON.stringify(await compare()));
} finally {
  for (const peer of peers) await peer.stop();
  await Deno.remove(dir, { recursive: true });
}

async function compare() {
  const upstream = await startUpstream(peers, dir);
  const client = startProgram(peers, "load.ts", []);
  const startSide = async (name: string, root: string): Promise<Side> => {
    const home = join(dir, name);
    const { files } = await openCa({ dir: home });
    const args = [home, `${upstream.port}`, upstream.rootFile];
    const proxy = startProgram(peers, "proxy.ts", args, resolve(root));
    return { proxy, port: Number(await proxy.line()), caFile: files.certificate };
  };
  const load = async ({ proxy, port, caFile }: Side, count: number): Promise<Cost> => {
    const job: Job = { kind: "requests", host: HOST, connections: CONNECTIONS, port, caFile, count };
    const before = await proxy.cpuTime();
    await client.write(JSON.stringify(job));
    const { seconds, failed }: Result = JSON.parse(await client.line());
    if (failed > 0) throw new Error(`${failed} requests failed`);
    return { cpu: (await proxy.cpuTime() - before) / count, rate: count / seconds };
  };
  const [one, other] = [await startSide("checkout", checkout), await startSide("baseline", baseline)];
  for (const side of [one, other]) await load(side, WARM_UP);
  const costs: [Cost, Cost][] = [];
  for (let round = 0; round < Number(rounds); round++) {
    const count = Number(requests);
    const otherFirst = round % 2 === 1 ? await load(other, count) : undefined;
    costs.push([await load(one, count), otherFirst ?? await load(other, count)]);
  }
  return {
    bench: "net pair",
    ratio_cpu: rounded(median(costs.map(([one, other]) => one.cpu / other.cpu)), 3),
    ratio_throughput: rounded(median(costs.map(([one, other]) => one.rate / other.rate)), 3),
    cpu_us: costs[0].map((_, side) => rounded(median(costs.map((cost) => cost[side].cpu)), 1)),
    requests_per_s: costs[0].map((_, side) => rounded(median(costs.map((cost) => cost[side].rate)), 0)),
    rounds: costs.length,
    requests: Number(requests),
  };
}
