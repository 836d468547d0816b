/** Input of a hostile or faulty guest at its MCP endpoint, and the answers to it. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { encodeFrame, type FrameChannel, writeAll } from "../../../../lib/base/wire/mod.ts";
import type { Catalogue, ToolEntry } from "../../../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { GuestSide } from "../../../helper/mcp_endpoint_guest.ts";
import type { Parsed } from "../../../helper/json.ts";

/** A catalogue of tools that answer with their own name, or with `answer`. */
function catalogueOf(tools: ToolEntry[], answer?: unknown): Catalogue {
  const none = () => Promise.resolve([]);
  const missing = () => Promise.reject(new SbxError("mcp.resource.not_found", "there is none"));
  return {
    listTools: () => Promise.resolve(tools),
    listResources: none,
    listPrompts: none,
    callTool: (name) => Promise.resolve(answer ?? { content: [{ type: "text", text: name }] }),
    readResource: missing,
    getPrompt: missing,
  };
}

const tool = (namespaced_name: string, description = ""): ToolEntry => ({
  namespaced_name,
  description,
  input_schema: { type: "object" },
});
const guestOf = (catalogue = catalogueOf([tool("s__t")])) =>
  new GuestSide({ gate: new TestGate(), catalogue });
const request = (method: string, params?: unknown, id: unknown = 1) => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

async function answerTo(channel: FrameChannel, message: unknown): Promise<Parsed> {
  await channel.send(message);
  return await channel.next();
}

let deep: unknown = {};
for (let i = 0; i < 70; i++) deep = { deep };
const wide = { list: new Array(100_001).fill(0) };

/** Message of an initialized client, and the code and id of its answer. */
const MESSAGES: [string, unknown, number, unknown][] = [
  ["a batch", [request("ping")], -32600, null],
  ["an empty batch", [], -32600, null],
  ["text", "ping", -32600, null],
  ["a number", 5, -32600, null],
  ["no version", { id: 1, method: "ping" }, -32600, 1],
  ["another version", { jsonrpc: "1.0", id: 1, method: "ping" }, -32600, 1],
  ["no method", { jsonrpc: "2.0", id: 1 }, -32600, 1],
  ["a method that is no text", request(5 as unknown as string), -32600, 1],
  ["an id that is an object", request("ping", {}, {}), -32600, null],
  ["an id of null", request("ping", {}, null), -32600, null],
  ["a broken number as id", request("ping", {}, 1.5), -32600, null],
  ["an id of a megabyte", request("ping", {}, "x".repeat(1_000_000)), -32600, null],
  ["params that are a list", request("tools/call", []), -32602, 1],
  ["an unknown method", request("tools/delete"), -32601, 1],
  ["a name that objects have", request("constructor"), -32601, 1],
  ["a completion of nothing", request("completion/complete", {}), -32602, 1],
  [
    "a completion of no argument",
    request("completion/complete", { ref: { name: "a__b" }, argument: {} }),
    -32602,
    1,
  ],
  ["a subscription without a URI", request("resources/subscribe", {}), -32602, 1],
  ["no name", request("tools/call", {}), -32602, 1],
  ["an empty name", request("tools/call", { name: "" }), -32602, 1],
  ["arguments that are text", request("tools/call", { name: "s__t", arguments: "x" }), -32602, 1],
  ["arguments nested too deep", request("tools/call", { name: "s__t", arguments: { deep } }), -32602, 1],
  ["too many arguments", request("tools/call", { name: "s__t", arguments: wide }), -32602, 1],
  ["a URI that is too long", request("resources/read", { uri: "x".repeat(8193) }), -32602, 1],
  ["a resource that is not there", request("resources/read", { uri: "sbx://a/b" }), -32602, 1],
  ["a cursor of another list", request("tools/list", { cursor: btoa("prompts:0") }), -32602, 1],
  ["a cursor that is no text", request("tools/list", { cursor: 1 }), -32602, 1],
  ["an unknown level", request("logging/setLevel", { level: "loud" }), -32602, 1],
  ["a second initialize", request("initialize", { protocolVersion: "2025-06-18" }), -32600, 1],
];

Deno.test("an invalid message is answered, and the connection stays open", async (t) => {
  await using guest = guestOf();
  const channel = await guest.initialized();
  for (const [name, message, code, id] of MESSAGES) {
    await t.step(name, async () => {
      const answer = await answerTo(channel, message);
      assertEquals([answer.error?.code, answer.id], [code, id], JSON.stringify(answer));
      assert(answer.error.message.length > 10);
    });
  }
  // Answers and notifications are never answered.
  for (
    const message of [
      { jsonrpc: "2.0", id: 5, result: {} },
      { jsonrpc: "2.0", id: 5, error: { code: 1, message: "x" } },
      { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: { a: 1 } } },
      { jsonrpc: "2.0", method: "notifications/nonsense", params: {} },
      { jsonrpc: "2.0", method: "tools/call", params: { name: "s__t" } },
    ]
  ) await channel.send(message);
  assertEquals(await answerTo(channel, request("ping")), { jsonrpc: "2.0", id: 1, result: {} });
  channel.close();
});

Deno.test("only ping is allowed before initialize, which negotiates the version", async () => {
  await using guest = guestOf();
  for (
    const [requested, negotiated] of [
      ["2025-11-25", "2025-11-25"],
      ["2025-06-18", "2025-06-18"],
      ["2024-11-05", "2024-11-05"],
      ["1999-01-01", "2025-11-25"],
    ]
  ) {
    const channel = await guest.frames();
    assertEquals((await answerTo(channel, request("tools/list"))).error.code, -32600);
    assertEquals((await answerTo(channel, request("ping"))).result, {});
    assertEquals((await answerTo(channel, request("initialize", {}))).error.code, -32602);
    const { result } = await answerTo(channel, request("initialize", { protocolVersion: requested }));
    assertEquals(result.protocolVersion, negotiated);
    assertEquals(Object.keys(result.capabilities).sort(), [
      "completions",
      "logging",
      "prompts",
      "resources",
      "tools",
    ]);
    channel.close();
  }
});

const frameOf = (bytes: Uint8Array) => {
  const frame = new Uint8Array(4 + bytes.length);
  new DataView(frame.buffer).setUint32(0, bytes.length);
  frame.set(bytes, 4);
  return frame;
};
const utf8 = (text: string) => new TextEncoder().encode(text);
const HELLO = encodeFrame({ t: "Hello", process_name: "evil" });

/** First bytes of a connection, and the code of the error sent before it is closed; `undefined`: none. */
const BYTES: [string, Uint8Array[], number | undefined][] = [
  ["no Hello", [encodeFrame(request("ping"))], -32600],
  ["a Hello without a name", [encodeFrame({ t: "Hello" })], -32600],
  ["a Hello with a long name", [encodeFrame({ t: "Hello", process_name: "x".repeat(300) })], -32600],
  ["a frame that is not JSON", [HELLO, frameOf(utf8("{"))], -32700],
  ["a frame that is not UTF-8", [HELLO, frameOf(new Uint8Array([0x22, 0xff, 0x22]))], -32700],
  ["a frame of no bytes", [HELLO, frameOf(new Uint8Array())], -32700],
  ["a frame over 1 MiB", [HELLO, new Uint8Array([0, 0x10, 0, 1])], -32600],
  ["a frame of 4 GiB", [HELLO, new Uint8Array([255, 255, 255, 255])], -32600],
  ["the end of the stream as a frame", [HELLO, frameOf(utf8("null"))], undefined],
];

Deno.test("a connection with a malformed frame is closed, and no other", async (t) => {
  await using guest = guestOf();
  const bystander = await guest.initialized();
  for (const [name, bytes, code] of BYTES) {
    await t.step(name, async () => {
      const conn = await guest.connect();
      for (const part of bytes) await writeAll(conn, part);
      const answer = JSON.parse(new TextDecoder().decode((await readAll(conn)).subarray(4)) || "{}");
      assertEquals(answer.error?.code, code, JSON.stringify(answer));
      conn.close();
      assertEquals((await answerTo(bystander, request("ping"))).result, {});
    });
  }
  bystander.close();
});

async function readAll(conn: Deno.Conn): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const chunk = new Uint8Array(64 * 1024);
  for (let read = await conn.read(chunk); read !== null; read = await conn.read(chunk)) {
    parts.push(chunk.slice(0, read));
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

Deno.test("a request is rejected while another one with the same id is in progress", async () => {
  const waiting = Promise.withResolvers<void>();
  const catalogue = catalogueOf([]);
  catalogue.callTool = () => waiting.promise.then(() => ({ content: [] }));
  await using guest = guestOf(catalogue);
  const channel = await guest.initialized();
  await channel.send(request("tools/call", { name: "s__t" }));
  const refused = await answerTo(channel, request("tools/call", { name: "s__t" }));
  assertEquals([refused.error.code, refused.id], [-32600, null]);
  waiting.resolve();
  assertEquals(await channel.next(), { jsonrpc: "2.0", id: 1, result: { content: [] } });
  channel.close();
});

/** Asserts that a new connection is closed at once, before or after its Hello. */
async function refused(guest: GuestSide): Promise<void> {
  const channel = await guest.frames(null);
  await channel.send({ t: "Hello", process_name: "agent" }).catch(() => {});
  assertEquals(await channel.next().catch(() => null), null);
  channel.close();
}

Deno.test("connections of a guest are limited", async () => {
  await using guest = new GuestSide({
    gate: new TestGate(),
    catalogue: catalogueOf([]),
    limits: { connections: 2 },
  });
  const first = await guest.initialized();
  const second = await guest.initialized();
  await refused(guest);
  first.close();
  await guest.served[0];
  const fourth = await guest.initialized();
  assertEquals((await answerTo(fourth, request("ping"))).result, {});
  for (const channel of [second, fourth]) channel.close();
});

Deno.test("long lists are paged, and a tool too large for a frame is omitted", async () => {
  const tools = Array.from({ length: 10_000 }, (_, at) => tool(`server__tool_${at}`, "d".repeat(200)));
  tools.splice(5, 0, tool("server__huge", "x".repeat(900_000)), {
    ...tool("server__held"),
    pin_changed: true,
  });
  const gate = new TestGate();
  await using guest = new GuestSide({ gate, catalogue: catalogueOf(tools) });
  const channel = await guest.initialized();
  const names: string[] = [];
  let pages = 0;
  for (let cursor: string | undefined, more = true; more; pages++) {
    const { result } = await answerTo(channel, request("tools/list", { cursor }));
    names.push(...result.tools.map(({ name }: { name: string }) => name));
    cursor = result.nextCursor;
    more = cursor !== undefined;
  }
  assertEquals(names, tools.map((entry) => entry.namespaced_name).filter((name) => !/huge|held/.test(name)));
  assert(pages > 2 && pages < 8, `${pages} pages`);
  assertEquals(gate.entries[0].outcome!.error, "too large to list: server__huge");
  channel.close();
});

Deno.test("an invalid result is an error of its call", async () => {
  for (const answer of ["text", [1], null, 5]) {
    const catalogue = catalogueOf([]);
    catalogue.callTool = () => Promise.resolve(answer);
    await using guest = guestOf(catalogue);
    const channel = await guest.initialized();
    const { error } = await answerTo(channel, request("tools/call", { name: "s__t" }));
    assertEquals(error?.code, -32603);
    channel.close();
  }
});

Deno.test("a closed endpoint serves no connection", async () => {
  await using guest = guestOf();
  const channel = await guest.initialized();
  guest.endpoint.close();
  await assertRejects(async () => {
    if (await channel.next() === null) throw new Error("closed");
  });
  await refused(guest);
  channel.close();
});
