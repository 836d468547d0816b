/**
 * HTTPS of a guest, inspected, decided on and recorded, beside nginx and mitmproxy with TLS on both sides of
 * the same requests in the same run, and beside the upstream alone. Prints one JSON object. nginx and
 * mitmproxy are Debian packages; without one of them its ratio is left out, and `missing` names it.
 */
import { openCa } from "../../lib/network/ca/mod.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { Job, Result } from "./net/load.ts";
import { type Peer, startMitmproxy, startNginx } from "./net/peer.ts";
import { HOST, startProgram, startUpstream } from "./net/program.ts";

const CONNECTIONS = 32;
const ROUNDS = 3;
const MANY = 1000;
const LONG = 50_000;
const DOWNLOAD = 100 * 1024 * 1024;
/** Requests of one round, enough for some seconds. */
const REQUESTS = { sbx: 20_000, nginx: 40_000, mitmproxy: 2_000 };

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-net-" });
const peers: Peer[] = [];
try {
  console.log(JSON.stringify(await measure()));
} finally {
  for (const peer of peers) await peer.stop();
  await Deno.remove(dir, { recursive: true });
}

async function measure() {
  const { port: upstreamPort, ...files } = await startUpstream(peers, dir);
  const { rootFile } = files;
  const guest = await openCa({ dir });
  const sbx = startProgram(peers, "proxy.ts", [dir, `${upstreamPort}`, rootFile]);
  const client = startProgram(peers, "load.ts", []);
  const options = { dir, host: HOST, upstreamPort, ...files };
  const nginx = await startNginx(peers, options);
  const mitmproxy = await startMitmproxy(peers, options);
  const run = async (
    job: Partial<Job> & Pick<Job, "port" | "caFile" | "kind" | "count">,
  ): Promise<Result> => {
    await client.write(JSON.stringify({ host: HOST, connections: CONNECTIONS, ...job }));
    return JSON.parse(await client.line());
  };
  const memory = async (): Promise<{ rss: number }> => {
    await sbx.write("memory");
    return JSON.parse(await sbx.line());
  };

  const ours = { port: Number(await sbx.line()), caFile: guest.files.certificate };
  const bare = { port: upstreamPort, caFile: rootFile };
  const nginxPeer = nginx && { port: nginx, caFile: rootFile };
  const mitmproxyPeer = mitmproxy && { port: mitmproxy.port, caFile: mitmproxy.caFile };
  // A first round warms up, and rounds take turns, so that all run under the same conditions.
  const rates = { sbx: [] as number[], nginx: [] as number[], mitmproxy: [] as number[] };
  const speeds = { sbx: [] as number[], nginx: [] as number[] };
  const latencies = { sbx: [] as number[], bare: [] as number[] };
  let failed = 0;
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, to] of [["sbx", ours], ["nginx", nginxPeer], ["mitmproxy", mitmproxyPeer]] as const) {
      if (!to) continue;
      const count = REQUESTS[name];
      const result = await run({ ...to, kind: "requests", count });
      failed += result.failed;
      if (round > 0) rates[name].push(count / result.seconds);
    }
    for (const [name, to] of [["sbx", ours], ["nginx", nginxPeer]] as const) {
      if (!to) continue;
      const result = await run({ ...to, kind: "download", count: DOWNLOAD, connections: 1 });
      failed += result.failed;
      if (round > 0) speeds[name].push(DOWNLOAD / result.seconds / 1e6);
    }
    for (const [name, to] of [["sbx", ours], ["bare", bare]] as const) {
      const result = await run({ ...to, kind: "latency", count: 1000, connections: 1 });
      failed += result.failed;
      if (round > 0) latencies[name].push(result.p50_ms!);
    }
  }
  const before = await memory();
  failed += (await run({ ...ours, kind: "requests", count: LONG })).failed;
  const after = await memory();
  failed += (await run({ ...ours, kind: "requests", count: MANY * 5, connections: MANY })).failed;
  const many = await memory();
  const missing = [...nginx ? [] : ["nginx"], ...mitmproxy ? [] : ["mitmproxy"]];
  const requests = median(rates.sbx);
  return {
    bench: "net",
    requests_per_s: rounded(requests, 0),
    ...(nginx && {
      nginx_requests_per_s: rounded(median(rates.nginx), 0),
      ratio_nginx: rounded(requests / median(rates.nginx)),
    }),
    ...(mitmproxy && {
      mitmproxy_requests_per_s: rounded(median(rates.mitmproxy), 0),
      ratio_mitmproxy: rounded(requests / median(rates.mitmproxy)),
    }),
    download_mb_per_s: rounded(median(speeds.sbx), 0),
    ...(nginx && {
      nginx_download_mb_per_s: rounded(median(speeds.nginx), 0),
      ratio_download_nginx: rounded(median(speeds.sbx) / median(speeds.nginx)),
    }),
    p50_ms: rounded(median(latencies.sbx), 3),
    upstream_p50_ms: rounded(median(latencies.bare), 3),
    added_p50_ms: rounded(median(latencies.sbx) - median(latencies.bare), 3),
    rss_mb_before: rounded(before.rss / 1e6, 0),
    rss_mb_after_50000: rounded(after.rss / 1e6, 0),
    rss_mb_1000_connections: rounded(many.rss / 1e6, 0),
    failed,
    ...(missing.length > 0 &&
      { missing: `${missing.join(", ")} not found: apt-get install ${missing.join(" ")}` }),
  };
}
