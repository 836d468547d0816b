/** Random messages and bytes for the guest's MCP endpoint, and for the guest's own bridge. */
import { assert, assertEquals } from "@std/assert";
import { readLines } from "../../cmd/guest/mcp_server/bridge.ts";
import { encodeFrame, writeAll } from "../../lib/base/wire/mod.ts";
import type { Catalogue } from "../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../helper/gate.ts";
import { GuestSide } from "../helper/mcp_endpoint_guest.ts";
import { Random } from "../helper/random.ts";
import type { Parsed } from "../helper/json.ts";

const MESSAGES = 2000;
const CONNECTIONS = 300;

const WORDS = [
  "jsonrpc",
  "2.0",
  "id",
  "method",
  "params",
  "name",
  "uri",
  "arguments",
  "cursor",
  "level",
  "t",
  "End",
  "Hello",
  "tools/call",
  "tools/list",
  "resources/read",
  "resources/list",
  "prompts/get",
  "ping",
  "initialize",
  "notifications/cancelled",
  "notifications/initialized",
  "requestId",
  "protocolVersion",
  "_meta",
  "progressToken",
  "s__t",
  "sbx://s/u",
  "__proto__",
  "constructor",
  "",
  "__",
  "sbx:///",
  "\0",
  "💥",
  "\ud800",
];

function value(random: Random, depth = 0): unknown {
  switch (random.below(depth > 4 ? 6 : 8)) {
    case 0:
      return null;
    case 1:
      return random.below(2) === 0;
    case 2:
      return random.pick([0, -1, 1.5, 2 ** 53, 1e308, random.below(10)]);
    case 3:
    case 4:
    case 5:
      return random.pick(WORDS);
    case 6:
      return Array.from({ length: random.below(4) }, () => value(random, depth + 1));
    default:
      return object(random, depth);
  }
}

function object(random: Random, depth: number): Record<string, unknown> {
  return Object.fromEntries(
    Array.from({ length: random.below(5) }, () => [random.pick(WORDS), value(random, depth + 1)]),
  );
}

/** A random message, mostly a nearly valid request. */
function message(random: Random): unknown {
  if (random.below(5) === 0) return value(random);
  return {
    jsonrpc: random.below(10) === 0 ? value(random) : "2.0",
    ...(random.below(4) > 0 && { id: random.below(6) === 0 ? value(random) : random.below(50) }),
    method: random.below(8) === 0 ? value(random) : random.pick(WORDS.slice(13, 22)),
    params: random.below(3) === 0 ? value(random) : {
      name: random.pick(WORDS),
      uri: random.pick(WORDS),
      arguments: value(random),
      _meta: value(random),
      ...object(random, 0),
    },
  };
}

const catalogue: Catalogue = {
  listTools: () => Promise.resolve([{ namespaced_name: "s__t", input_schema: {} }]),
  listResources: () => Promise.resolve([]),
  listPrompts: () => Promise.resolve([]),
  callTool: (name, args) => Promise.resolve({ content: [{ type: "text", text: name }], args }),
  readResource: (uri) => Promise.resolve({ contents: [{ uri, text: "" }] }),
  getPrompt: (_, args) => Promise.resolve({ messages: [], args }),
};

Deno.test("random messages: each is answered at most once, with a known code, and every event has an outcome", async () => {
  const random = new Random(20260701);
  const gate = new TestGate();
  await using guest = new GuestSide({ gate, catalogue });
  let channel = await guest.initialized();
  const CODES = new Set([-32700, -32600, -32601, -32602, -32603]);
  let answered = 0;
  for (let round = 0; round < MESSAGES; round++) {
    const sent = JSON.parse(JSON.stringify(message(random)));
    // These two end a connection by design.
    if (sent === null || sent?.t === "End") continue;
    await channel.send(sent);
    const mark = `mark-${round}`;
    await channel.send({ jsonrpc: "2.0", id: mark, method: "ping" });
    const seen: Parsed[] = [];
    for (let open = true; open;) {
      const answer: Parsed = await channel.next();
      assert(answer !== null, `the connection ended after ${JSON.stringify(sent)}`);
      if (answer.id === mark) {
        open = sent.id !== undefined && sent.method !== undefined && seen.length === 0;
        if (open) seen.push("mark");
        continue;
      }
      if (answer.method !== undefined) continue;
      assert("result" in answer !== "error" in answer, JSON.stringify(answer));
      if (answer.error) assert(CODES.has(answer.error.code), JSON.stringify([sent, answer]));
      answered++;
      if (seen.includes("mark")) open = false;
      seen.push(answer);
    }
    assert(seen.filter((each) => each !== "mark").length <= 1, JSON.stringify([sent, seen]));
  }
  assert(answered > MESSAGES / 4, `${answered} answers`);
  assert(gate.entries.length > MESSAGES / 20, `${gate.entries.length} events`);
  for (const { event, decision, outcome } of gate.entries) {
    assert(decision!.decision !== "allow" || outcome !== undefined, JSON.stringify(event));
  }
  channel.close();
  channel = await guest.initialized();
  channel.close();
});

Deno.test("random bytes end their own connection only", async () => {
  const random = new Random(20260702);
  await using guest = new GuestSide({ gate: new TestGate(), catalogue });
  const bystander = await guest.initialized();
  for (let round = 0; round < CONNECTIONS; round++) {
    const conn = await guest.connect();
    const good = encodeFrame({ t: "Hello", process_name: "x" });
    const bytes = new Uint8Array([...random.below(2) ? good : [], ...random.bytes(random.below(200))]);
    await writeAll(conn, bytes).catch(() => {});
    await conn.closeWrite().catch(() => {});
    const chunk = new Uint8Array(4096);
    while (await conn.read(chunk).catch(() => null) !== null);
    conn.close();
  }
  await bystander.send({ jsonrpc: "2.0", id: 1, method: "ping" });
  assertEquals(await bystander.next(), { jsonrpc: "2.0", id: 1, result: {} });
  bystander.close();
});

Deno.test("lines: random bytes are the same lines wherever they are cut", async () => {
  const random = new Random(20260703);
  for (let round = 0; round < 2000; round++) {
    const bytes = random.bytes(random.below(300)).map((byte) => byte < 40 ? 10 : byte);
    const limit = 1 + random.below(30);
    let at = 0;
    const read = await Array.fromAsync(readLines({
      read(into) {
        if (at === bytes.length) return Promise.resolve(null);
        const count = Math.min(1 + random.below(20), into.length, bytes.length - at);
        into.set(bytes.subarray(at, at += count));
        return Promise.resolve(count);
      },
    }, limit));
    const expected = String.fromCharCode(...bytes).split("\n");
    if (expected.at(-1) === "") expected.pop();
    assertEquals(
      read.map((line) => line && String.fromCharCode(...line)),
      expected.map((line) => line.length > limit ? undefined : line),
    );
  }
});
