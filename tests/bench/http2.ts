/**
 * HTTP/2 of a guest: requests on one connection with 100 streams, beside HTTP/1.1 in the same run, and calls
 * of gRPC beside the server alone. Prints one JSON object. The clients are Debian's:
 * `apt-get install nghttp2-client python3-grpcio`.
 */
import { caFiles, openCa } from "../../lib/network/ca/mod.ts";
import { GRPC_HOST, GrpcServer } from "../helper/grpc.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { Peer } from "./net/peer.ts";
import { HOST, startProgram, startUpstream } from "./net/program.ts";

const ROUNDS = 3;
/**
 * A long answer, and a shorter one before it, in `bytes`; and how often the proxy's memory is read, in `ms`.
 */
const LONG = 1024 ** 3, SHORTER = LONG / 16;
const MEMORY_MS = 50;
const REQUESTS = 3000;
const CALLS = 800;
/** Calls at once, on one channel. */
const CALLERS = 16;

/** Calls of `Unary` from threads on one channel; prints how many seconds they took. */
const CALLS_PROGRAM = `
import sys, time, threading, grpc
port, ca, calls, callers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = [("grpc.ssl_target_name_override", "${GRPC_HOST}"), ("grpc.default_authority", "${GRPC_HOST}")]
channel = grpc.secure_channel("127.0.0.1:" + port, grpc.ssl_channel_credentials(open(ca, "rb").read()), options)
unary = channel.unary_unary("/test.Echo/Unary")
unary(b"warm")
def run():
    for _ in range(calls // callers):
        assert unary(b"hello") == b"hello!"
threads = [threading.Thread(target=run) for _ in range(callers)]
begin = time.monotonic()
for thread in threads: thread.start()
for thread in threads: thread.join()
print(time.monotonic() - begin)
`;

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-http2-" });
const peers: Peer[] = [];
try {
  console.log(JSON.stringify(await measure()));
} finally {
  for (const peer of peers) await peer.stop();
  await Deno.remove(dir, { recursive: true });
}

async function measure() {
  const upstream = await startUpstream(peers, dir);
  await openCa({ dir });
  const sbx = startProgram(peers, "proxy.ts", [dir, `${upstream.port}`, upstream.rootFile]);
  const port = Number(await sbx.line());
  const usage = async (): Promise<{ cpu_us: number; rss: number }> => {
    await sbx.write("memory");
    return JSON.parse(await sbx.line());
  };
  const cpu = async (): Promise<number> => (await usage()).cpu_us;
  const kinds = {
    http2: ["-c", "1", "-m", "100"],
    http1: ["--h1", "-c", "1", "-m", "1"],
    http1_32: ["--h1", "-c", "32", "-m", "1"],
  };
  const rates: Record<keyof typeof kinds, number[]> = { http2: [], http1: [], http1_32: [] };
  const costs: Record<keyof typeof kinds, number[]> = { http2: [], http1: [], http1_32: [] };
  // A first round warms up, and rounds take turns, so that all run under the same conditions.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const kind of ["http2", "http1", "http1_32"] as const) {
      const before = await cpu();
      const rate = await load(kinds[kind], port);
      if (round === 0) continue;
      rates[kind].push(rate);
      costs[kind].push((await cpu() - before) / REQUESTS);
    }
  }
  const long = {
    long_http2: await measureLong("--http2", port, async () => (await usage()).rss),
    long_http1: await measureLong("--http1.1", port, async () => (await usage()).rss),
  };
  const grpc = await measureGrpc();
  const rate = (kind: keyof typeof kinds) => rounded(median(rates[kind]), 0);
  const cost = (kind: keyof typeof kinds) => rounded(median(costs[kind]), 0);
  const ratio = (kind: keyof typeof kinds) =>
    rounded(median(rates.http2.map((http2, round) => http2 / rates[kind][round])));
  return {
    bench: "http2",
    http2_requests_per_s: rate("http2"),
    http1_requests_per_s: rate("http1"),
    http1_32_requests_per_s: rate("http1_32"),
    ratio_http1: ratio("http1"),
    ratio_http1_32: ratio("http1_32"),
    cpu_us: { http2: cost("http2"), http1: cost("http1"), http1_32: cost("http1_32") },
    ...long,
    ...grpc,
  };
}

/** @returns rate of a long answer, and memory that the proxy took for it beyond the most for a shorter one */
async function measureLong(version: string, port: number, rss: () => Promise<number>) {
  const { peak: before } = await readLong(version, port, SHORTER, rss);
  const { peak, seconds } = await readLong(version, port, LONG, rss);
  return { mb_per_s: rounded(LONG / seconds / 1e6, 0), growth_mb: rounded((peak - before) / 1e6, 0) };
}

async function readLong(version: string, port: number, size: number, rss: () => Promise<number>) {
  const began = performance.now();
  const child = new Deno.Command("curl", {
    args: ["-sSfk", version, "-o", "/dev/null", "--connect-to", `${HOST}:443:127.0.0.1:${port}`]
      .concat(["-w", "%{size_download}", `https://${HOST}/big/${size}`]),
    stdout: "piped",
  }).spawn();
  let [peak, isOver] = [0, false];
  const watch = async () => {
    while (!isOver) {
      peak = Math.max(peak, await rss());
      await new Promise((resolve) => setTimeout(resolve, MEMORY_MS));
    }
  };
  const watching = watch();
  const { stdout } = await child.output();
  const seconds = (performance.now() - began) / 1000;
  isOver = true;
  await watching;
  const read = new TextDecoder().decode(stdout);
  if (read !== `${size}`) throw new Error(`${read} of ${size} bytes arrived`);
  return { peak, seconds };
}

/** @returns requests per second */
async function load(args: string[], port: number): Promise<number> {
  const { stdout } = await new Deno.Command("h2load", {
    args: ["-n", `${REQUESTS}`, ...args, `--connect-to=127.0.0.1:${port}`, `https://${HOST}/v1/items?page=1`],
  }).output();
  const text = new TextDecoder().decode(stdout);
  if (!text.includes(`${REQUESTS} succeeded, 0 failed`)) throw new Error(`requests failed:\n${text}`);
  return Number(/finished in .*?, ([0-9.]+) req\/s/.exec(text)![1]);
}

/** Calls of gRPC through a proxy of their own, beside the server alone. */
async function measureGrpc() {
  const roots = await openCa({ dir: `${dir}/upstream` });
  const rootFile = caFiles({ dir: `${dir}/upstream` }).certificate;
  await using server = await GrpcServer.start(dir, await roots.leaf(GRPC_HOST));
  const home = `${dir}/grpc`;
  const { files } = await openCa({ dir: home });
  const sbx = startProgram(peers, "proxy.ts", [home, `${server.port}`, rootFile]);
  const port = Number(await sbx.line());
  const seconds = { sbx: [] as number[], bare: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    const sides = [["sbx", port, files.certificate], ["bare", server.port, rootFile]] as const;
    for (const [name, to, caFile] of sides) {
      const args = ["-c", CALLS_PROGRAM, `${to}`, caFile, `${CALLS}`, `${CALLERS}`];
      const { success, stdout, stderr } = await new Deno.Command("/usr/bin/python3", { args }).output();
      if (!success) throw new Error(new TextDecoder().decode(stderr));
      if (round > 0) seconds[name].push(Number(new TextDecoder().decode(stdout)));
    }
  }
  return {
    grpc_calls_per_s: rounded(CALLS / median(seconds.sbx), 0),
    grpc_direct_calls_per_s: rounded(CALLS / median(seconds.bare), 0),
    ratio_grpc_direct: rounded(median(seconds.sbx.map((own, round) => seconds.bare[round] / own))),
  };
}
