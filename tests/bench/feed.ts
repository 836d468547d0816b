/**
 * HTTPS of a guest, inspected and recorded, while a feed sends each event to a file, beside the same without a feed in the
 * same run. Prints one JSON object: `ratio` is the requests per second with the feed divided by the ones without, and `ratio_cpu` the
 * processor time of an event in the feed divided by the one of a request in the proxy.
 */
import { openCa } from "../../lib/network/ca/mod.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { Job, Result } from "./net/load.ts";
import type { Peer } from "./net/peer.ts";
import { HOST, startProgram, startUpstream } from "./net/program.ts";

const CONNECTIONS = 32;
const ROUNDS = 7;
/** Requests of one round: some seconds, and so some rounds of the feed. */
const REQUESTS = 12_000;

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
  const { files } = await openCa({ dir });
  const proxy = startProgram(peers, "proxy.ts", [dir, `${upstream.port}`, upstream.rootFile]);
  const port = Number(await proxy.line());
  const feed = startProgram(peers, "feed.ts", [dir]);
  await feed.line();
  const client = startProgram(peers, "load.ts", []);
  const job: Job = {
    ...{ kind: "requests", host: HOST, connections: CONNECTIONS, port, caFile: files.certificate },
    count: REQUESTS,
  };
  const load = async (): Promise<number> => {
    await client.write(JSON.stringify(job));
    const { seconds, failed }: Result = JSON.parse(await client.line());
    if (failed > 0) throw new Error(`${failed} requests failed`);
    return REQUESTS / seconds;
  };
  const ask = async (peer: Peer, line: string): Promise<{ sent: number; cpu_us: number }> => {
    await peer.write(line);
    return JSON.parse(await peer.line());
  };
  await load();
  const rates = { with: [] as number[], without: [] as number[] };
  const costs: number[] = [];
  let lag = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const withFeed = async () => {
      const before = { feed: await ask(feed, "drain"), proxy: await ask(proxy, "memory") };
      await feed.write("on");
      rates.with.push(await load());
      const after = { feed: await ask(feed, "off"), proxy: await ask(proxy, "memory") };
      const sent = after.feed.sent - before.feed.sent;
      lag = Math.max(lag, REQUESTS - sent);
      const perEvent = (after.feed.cpu_us - before.feed.cpu_us) / sent;
      costs.push(perEvent / ((after.proxy.cpu_us - before.proxy.cpu_us) / REQUESTS));
    };
    // In turns, so that what else the machine does meets both.
    if (round % 2 === 0) await withFeed();
    rates.without.push(await load());
    if (round % 2 === 1) await withFeed();
  }
  const { sent } = await ask(feed, "drain");
  return {
    bench: "feed",
    ratio: rounded(median(rates.with.map((rate, at) => rate / rates.without[at])), 3),
    requests_per_s: rounded(median(rates.with), 0),
    requests_per_s_without: rounded(median(rates.without), 0),
    ratio_cpu: rounded(median(costs), 3),
    sent,
    lag,
  };
}
