/**
 * HTTPS of a guest, inspected and recorded, with a feed that sends each event to a file, and without it, in
 * turns. Prints one JSON object: `ratio` is the requests per second with the feed divided by the ones
 * without; `ratio_cpu` the processor time of an event in the feed divided by the one of a request in all
 * programs of the traffic, its client, the proxy and its server; and `ratio_cpu_proxy` divided by the one in
 * the proxy alone. The argument is the number of rounds.
 */
import { openCa } from "../../lib/network/ca/mod.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { Job, Result } from "./net/load.ts";
import type { Peer } from "./net/peer.ts";
import { HOST, startProgram, startUpstream } from "./net/program.ts";

const CONNECTIONS = 32;
const ROUNDS = Number(Deno.args[0] ?? 7);
/** Requests of one round: some seconds, and so some rounds of the feed. */
const REQUESTS = 12_000;
/** More than a feed keeps parts of: no record is made of one of before. */
const PATHS = 5000;

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-feed-" });
const peers: Peer[] = [];
try {
  console.log(JSON.stringify(await measure()));
} finally {
  for (const peer of peers) await peer.stop();
  await Deno.remove(dir, { recursive: true });
}

async function measure() {
  const upstream = await startUpstream(peers, dir);
  const server = peers[0];
  const { files } = await openCa({ dir });
  const proxy = startProgram(peers, "proxy.ts", [dir, `${upstream.port}`, upstream.rootFile]);
  const port = Number(await proxy.line());
  const feed = startProgram(peers, "feed.ts", [dir]);
  await feed.line();
  const client = startProgram(peers, "load.ts", []);
  const job: Job = {
    ...{ kind: "requests", host: HOST, connections: CONNECTIONS, port, caFile: files.certificate },
    ...{ count: REQUESTS, paths: PATHS },
  };
  const load = async (): Promise<number> => {
    await client.write(JSON.stringify(job));
    const { seconds, failed }: Result = JSON.parse(await client.line());
    if (failed > 0) throw new Error(`${failed} requests failed`);
    return REQUESTS / seconds;
  };
  const ask = async (line: string): Promise<{ sent: number; cpu_us: number }> => {
    await feed.write(line);
    return JSON.parse(await feed.line());
  };
  const traffic = () => Promise.all([client, proxy, server].map((peer) => peer.cpuTime()));
  await load();
  const rates = { with: [] as number[], without: [] as number[] };
  const costs = { all: [] as number[], proxy: [] as number[], event: [] as number[] };
  let lag = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const withFeed = async () => {
      const before = await ask("drain");
      const began = await traffic();
      await feed.write("on");
      rates.with.push(await load());
      const [ofClient, ofProxy, ofServer] = (await traffic()).map((us, at) => (us - began[at]) / REQUESTS);
      const { sent } = await ask("off");
      lag = Math.max(lag, REQUESTS - (sent - before.sent));
      const after = await ask("drain");
      const event = (after.cpu_us - before.cpu_us) / (after.sent - before.sent);
      costs.event.push(event);
      costs.proxy.push(event / ofProxy);
      costs.all.push(event / (ofClient + ofProxy + ofServer));
    };
    // In turns, so that what else the machine does meets both.
    if (round % 2 === 0) await withFeed();
    rates.without.push(await load());
    if (round % 2 === 1) await withFeed();
  }
  const { sent } = await ask("drain");
  return {
    bench: "feed",
    ratio: rounded(median(rates.with.map((rate, at) => rate / rates.without[at])), 3),
    requests_per_s: rounded(median(rates.with), 0),
    requests_per_s_without: rounded(median(rates.without), 0),
    ratio_cpu: rounded(median(costs.all), 3),
    ratio_cpu_proxy: rounded(median(costs.proxy), 3),
    event_us: rounded(median(costs.event), 1),
    sent,
    lag,
  };
}
