/**
 * Tool calls all the way: a guest's frames, the endpoint, policy, driver and aggregator, to a server on the
 * loopback address, beside the SDK's own client straight to that server (the floor). Guest and host share
 * this process; the servers (`mcp.ts serve`) and the aggregator are processes of their own. Then the list
 * of 10,000 tools, in its pages.
 */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { fileURLToPath } from "node:url";
import type { FrameChannel } from "../../lib/base/wire/mod.ts";
import type { Catalogue } from "../../lib/mcp/endpoint/mod.ts";
import { Aggregator } from "../../lib/mcp/mod.ts";
import { TestGate } from "../helper/gate.ts";
import { GuestSide } from "../helper/mcp_endpoint_guest.ts";
import { definition } from "../helper/mcp_server.ts";
import { median, rounded, timed } from "../helper/statistics.ts";
import type { Parsed } from "../helper/json.ts";

const CALLS = 1500;
const ROUNDS = 3;
const IN_FLIGHT = 10;
const TOOLS = 10_000;
const RULES = Array.from({ length: 100 }, (_, at) => `
[profiles.rules.rule-${at}]
action = "block"
match = 'mcp.request.namespaced_tool_name == "other__tool_${at}" && mcp.request.arguments.n == ${at}'
`).join("");

/** A guest that only counts: requests by id. */
class Guest {
  #id = 1;
  readonly #waiting = new Map<number, (answer: Parsed) => void>();

  constructor(readonly channel: FrameChannel) {
    this.#read().catch(() => {}); // closed at the end
  }

  async #read(): Promise<void> {
    for (let frame: Parsed = await this.channel.next(); frame !== null; frame = await this.channel.next()) {
      this.#waiting.get(frame.id)?.(frame);
      this.#waiting.delete(frame.id);
    }
  }

  async request(method: string, params: object): Promise<Parsed> {
    const id = this.#id++;
    const answer = new Promise<Parsed>((resolve) => this.#waiting.set(id, resolve));
    await this.channel.send({ jsonrpc: "2.0", id, method, params });
    const { result, error } = await answer;
    if (error) throw new Error(error.message);
    return result;
  }
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

async function calls(url: string, dir: string) {
  const floor = new Client({ name: "bench", version: "1" });
  await floor.connect(new StreamableHTTPClientTransport(new URL(url)));
  await floor.listTools();
  const aggregator = await Aggregator.start({ definitions: [definition("s", url)], dir });
  await using side = new GuestSide({ gate: new TestGate(RULES), catalogue: aggregator });
  const guest = new Guest(await side.initialized());
  const straight = () => floor.callTool({ name: "do", arguments: { n: 1 } });
  const through = () => guest.request("tools/call", { name: "s__do", arguments: { n: 1 } });
  for (const call of [straight, through]) await load(call, IN_FLIGHT, CALLS / 2);
  const seen = { floor: [] as number[], ours: [] as number[], floor1: [] as number[], ours1: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    seen.floor.push((await load(straight, IN_FLIGHT, CALLS)).perSecond);
    seen.ours.push((await load(through, IN_FLIGHT, CALLS)).perSecond);
    seen.floor1.push((await load(straight, 1, CALLS / 4)).p50);
    seen.ours1.push((await load(through, 1, CALLS / 4)).p50);
  }
  guest.channel.close();
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
  };
}

/**
 * The endpoint alone: a catalogue that has its answers ready, beside JSON there and back of the same list.
 */
async function endpointAlone() {
  const tools = Array.from({ length: TOOLS }, (_, at) => ({
    namespaced_name: `server${at % 200}__tool_${at}`,
    description: `Does the thing that number ${at} stands for, and returns what came of it`,
    input_schema: { type: "object", properties: { path: { type: "string" }, limit: { type: "integer" } } },
  }));
  const none = () => Promise.resolve([]);
  const answer = Promise.resolve({ content: [{ type: "text", text: "x".repeat(200) }] });
  const catalogue: Catalogue = {
    listTools: () => Promise.resolve(tools),
    listResources: none,
    listPrompts: none,
    callTool: () => answer,
    readResource: () => answer,
    getPrompt: () => answer,
  };
  await using side = new GuestSide({ gate: new TestGate(RULES), catalogue });
  const guest = new Guest(await side.initialized());
  const call = () => guest.request("tools/call", { name: "s__do", arguments: { n: 1 } });
  await load(call, IN_FLIGHT, CALLS);
  const { perSecond } = await load(call, IN_FLIGHT, 4 * CALLS);
  const { p50 } = await load(call, 1, CALLS);
  let pages = 0;
  const all = async () => {
    pages = 0;
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined, pages++) {
      cursor = (await guest.request("tools/list", { cursor })).nextCursor;
    }
  };
  await all();
  const first = median(await sampled(() => guest.request("tools/list", {})));
  const whole = median(await sampled(all));
  const floor = median(await sampled(() => Promise.resolve(JSON.parse(JSON.stringify(tools)))));
  guest.channel.close();
  return {
    calls_per_s: rounded(perSecond, 0),
    p50_ms: rounded(p50, 3),
    list_tools: TOOLS,
    first_page_ms: rounded(first),
    pages,
    all_pages_ms: rounded(whole),
    json_floor_ms: rounded(floor),
    all_pages_ratio: rounded(whole / floor),
  };
}

async function sampled(work: () => Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < 7; round++) times.push(await timed(work));
  return times;
}

const servers = new Deno.Command(Deno.execPath(), {
  args: ["run", "-A", "--quiet", fileURLToPath(import.meta.resolve("./mcp.ts")), "serve"],
  stdin: "null",
  stdout: "piped",
}).spawn();
const { value } = await servers.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
const urls = JSON.parse(value!);
const dir = await Deno.makeTempDir({ prefix: "sbx-mcp-" });
try {
  console.log(JSON.stringify({
    name: "mcp_endpoint",
    in_flight: IN_FLIGHT,
    rules: 100,
    sdk_server: await calls(urls.sdk, dir),
    bare_server: await calls(urls.bare, dir),
    endpoint_alone: await endpointAlone(),
    rss_mb: rounded(Deno.memoryUsage().rss / 2 ** 20, 0),
  }));
} finally {
  await Deno.remove(dir, { recursive: true });
  servers.kill("SIGTERM");
  await servers.status;
}
Deno.exit(0);
