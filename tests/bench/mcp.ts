/**
 * Tool calls through driver and aggregator, beside the SDK's own client straight to the same server (the
 * floor), and the catalogue of 200 servers with 50 tools each, beside the slowest of them alone. The servers
 * are a process of their own: `sdk` is made with the SDK and answers with events, `bare` is as fast as a
 * server can be and makes the client the bottleneck. Client and driver share this process.
 */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { fileURLToPath } from "node:url";
import { Aggregator } from "../../lib/mcp/mod.ts";
import { definition, result, scriptedServer, sdkServer } from "../helper/mcp_server.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const CALLS = 2000;
const ROUNDS = 3;
const IN_FLIGHT = 10;
const SERVERS = 200;
const TOOLS = 50;
/** `ms` that the slowest server takes for initialize. */
const SLOWEST_MS = 1000;
const self = fileURLToPath(import.meta.url);
const ANSWER = { content: [{ type: "text" as const, text: "x".repeat(200) }] };

/** Prints where its servers are, and serves until it is killed. */
function serve(): void {
  const bare = scriptedServer({ call: ({ id }) => result(id, ANSWER) });
  const sdk = sdkServer((server) => {
    server.registerTool("do", {}, () => ANSWER);
  });
  // One port for all: each server is a path.
  const many = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method !== "POST") return new Response(null, { status: 405 });
    const { id, method } = await request.json();
    const isSlowest = request.url.endsWith("/0");
    if (method === "initialize") {
      if (isSlowest) await new Promise((resolve) => setTimeout(resolve, SLOWEST_MS));
      const serverInfo = { name: "s", version: "1" };
      return result(id, { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo });
    }
    if (method !== "tools/list") return new Response(null, { status: 202 });
    const tools = Array.from({ length: TOOLS }, (_, n) => ({
      name: `tool_${n}`,
      description: `Does the thing that number ${n} stands for, and returns what came of it`,
      inputSchema: { type: "object", properties: { path: { type: "string" }, limit: { type: "integer" } } },
    }));
    return result(id, { tools });
  });
  console.log(JSON.stringify({ bare: bare.url, sdk: sdk.url, many: `http://127.0.0.1:${many.addr.port}` }));
}

async function direct(url: string): Promise<{ call: () => Promise<unknown>; close: () => Promise<void> }> {
  const client = new Client({ name: "bench", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  await client.listTools();
  return { call: () => client.callTool({ name: "do", arguments: { n: 1 } }), close: () => client.close() };
}

/** Calls a second, and the middle of their times in milliseconds. */
async function load(call: () => Promise<unknown>, inFlight: number, total: number) {
  const times: number[] = [];
  let left = total;
  const one = async () => {
    while (left-- > 0) times.push(await timed(call));
  };
  const ms = await timed(() => Promise.all(Array.from({ length: inFlight }, one)));
  return { perSecond: total / ms * 1000, p50: median(times) };
}

async function rssMb(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return rounded(Number(/VmRSS:\s+(\d+)/.exec(status)![1]) / 1024, 0);
}

async function calls(url: string, dir: string) {
  const floor = await direct(url);
  const aggregator = await Aggregator.start({ definitions: [definition("s", url)], dir });
  const through = () => aggregator.callTool("s__do", { n: 1 });
  await load(floor.call, IN_FLIGHT, CALLS / 2);
  await load(through, IN_FLIGHT, CALLS / 2);
  const seen = {
    floor: [] as number[],
    ours: [] as number[],
    floor50: [] as number[],
    ours50: [] as number[],
    floor1: [] as number[],
    ours1: [] as number[],
  };
  for (let round = 0; round < ROUNDS; round++) {
    const a = await load(floor.call, IN_FLIGHT, CALLS);
    const b = await load(through, IN_FLIGHT, CALLS);
    seen.floor.push(a.perSecond);
    seen.ours.push(b.perSecond);
    seen.floor50.push(a.p50);
    seen.ours50.push(b.p50);
    seen.floor1.push((await load(floor.call, 1, CALLS / 4)).p50);
    seen.ours1.push((await load(through, 1, CALLS / 4)).p50);
  }
  const rss = await rssMb(aggregator.pid!);
  await aggregator.close();
  await floor.close();
  const [floorPerS, perS] = [median(seen.floor), median(seen.ours)];
  return {
    calls_per_s: rounded(perS, 0),
    floor_per_s: rounded(floorPerS, 0),
    throughput_ratio: rounded(perS / floorPerS),
    p50_ms: rounded(median(seen.ours1)),
    floor_p50_ms: rounded(median(seen.floor1)),
    added_p50_ms: rounded(median(seen.ours1) - median(seen.floor1)),
    added_p50_at_10_ms: rounded(median(seen.ours50) - median(seen.floor50)),
    aggregator_rss_mb: rss,
  };
}

async function catalogue(base: string, dir: string) {
  const definitions = Array.from({ length: SERVERS }, (_, n) => definition(`s${n}`, `${base}/${n}`));
  const slowest = await timed(async () => (await direct(definitions[0].url)).close());
  const began = performance.now();
  const aggregator = await Aggregator.start({ definitions, dir });
  await aggregator.listServers();
  const connected = performance.now() - began;
  const tools = await aggregator.listTools();
  const whole = performance.now() - began;
  const again: number[] = [];
  const anew: number[] = [];
  for (let round = 0; round < 5; round++) {
    again.push(await timed(() => aggregator.listTools()));
    aggregator.recheck();
    anew.push(await timed(() => aggregator.listTools()));
  }
  const rss = await rssMb(aggregator.pid!);
  await aggregator.close();
  return {
    servers: SERVERS,
    tools: tools.length,
    slowest_ms: rounded(slowest, 0),
    connected_ms: rounded(connected, 0),
    connected_ratio: rounded(connected / slowest),
    catalogue_ms: rounded(whole, 0),
    catalogue_ratio: rounded(whole / slowest),
    list_tools_ms: rounded(median(again), 3),
    list_tools_after_a_change_ms: rounded(median(anew)),
    aggregator_rss_mb: rss,
  };
}

if (Deno.args[0] === "serve") serve();
else {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", self, "serve"],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
  const urls = JSON.parse(value!);
  const dir = await Deno.makeTempDir({ prefix: "sbx-mcp-" });
  const report = {
    name: "mcp",
    in_flight: IN_FLIGHT,
    sdk_server: await calls(urls.sdk, dir),
    bare_server: await calls(urls.bare, dir),
    catalogue: await catalogue(urls.many, dir),
  };
  console.log(JSON.stringify(report));
  await Deno.remove(dir, { recursive: true });
  child.kill("SIGTERM");
  await child.status;
  Deno.exit(0);
}
