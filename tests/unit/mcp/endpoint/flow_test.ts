/**
 * The endpoint over time: cancellation, progress, timeouts, changed lists,
 * disconnects, and guests that do not read.
 */
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  LoggingMessageNotificationSchema,
  McpError,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { EndpointParts } from "../../../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { SdkCatalogue } from "../../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide, GuestTransport } from "../../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../../helper/mcp_endpoint_server.ts";
import { eventually } from "../../../helper/sbx.ts";
import type { Parsed } from "../../../helper/json.ts";

async function setUp({ limits, rules }: { limits?: EndpointParts["limits"]; rules?: string } = {}) {
  const test = testServer();
  const gate = new TestGate(rules);
  const catalogue = await SdkCatalogue.of(test.server, "test");
  return { ...test, gate, catalogue, guest: new GuestSide({ gate, catalogue, limits }) };
}

const call = (id: number, name: string, args: object = {}) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name: `test__${name}`, arguments: args },
});

Deno.test("a cancelled call is cancelled at the server, and gets no answer", async () => {
  const { guest, gate, cancelled } = await setUp();
  await using _ = guest;
  const channel = await guest.initialized();
  await channel.send(call(1, "wait"));
  await eventually("the call runs", () => gate.entries.length === 1);
  await channel.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
  await cancelled;
  await channel.send({ jsonrpc: "2.0", id: 2, method: "ping" });
  assertEquals(await channel.next(), { jsonrpc: "2.0", id: 2, result: {} });
  assertEquals(gate.entries[0].outcome?.error, "cancelled by the guest");
  channel.close();
});

Deno.test("calls of a guest that disconnects are cancelled, and its asks denied", async () => {
  const rules = `[profiles.rules.ask]\naction = "ask"\nmatch = 'mcp.request.tool_name == "deploy"'`;
  const { guest, gate, cancelled, calls } = await setUp({ rules });
  await using _ = guest;
  const channel = await guest.initialized();
  await channel.send(call(1, "wait"));
  await channel.send(call(2, "deploy", { target: "prod" }));
  await eventually("both are under way", () => gate.asks.pending().length === 1 && calls.length === 1);
  channel.close();
  await cancelled;
  await eventually("the call is over", () => gate.entries[0].outcome !== undefined);
  assertEquals(gate.entries[0].outcome!.error, "the guest's program closed the connection");
  await eventually("the ask is denied", () => gate.entries[1].decision!.decision === "block");
  assertEquals(calls.map(({ tool }) => tool), ["wait"]);
});

Deno.test("progress arrives in order at the client that requested it", async () => {
  const { guest } = await setUp();
  await using _ = guest;
  const client = await guest.client();
  const seen: unknown[] = [];
  const result = await client.callTool({ name: "test__count", arguments: { to: 3 } }, undefined, {
    onprogress: (progress) => seen.push(progress),
  });
  assertEquals((result as Parsed).content[0].text, "counted");
  const steps = [1, 2, 3].map((progress) => ({ progress, total: 3, message: `step ${progress}` }));
  assertEquals(seen, steps);
});

Deno.test("a call that times out is −32000, and cancelled at its server", async () => {
  const { guest, gate, cancelled } = await setUp({ limits: { callTimeoutMs: 50 } });
  await using _ = guest;
  const client = await guest.client();
  const error = await assertRejects(() => client.callTool({ name: "test__wait" }), McpError);
  assertEquals([error.code, error.message], [-32000, "MCP error -32000: no answer within 0.05 s"]);
  await cancelled;
  assertEquals(gate.entries[0].outcome!.error, "no answer within 0.05 s");
});

Deno.test("a changed list is announced, then listed", async () => {
  const { guest, server } = await setUp();
  await using _ = guest;
  const client = await guest.client();
  const changed = Promise.withResolvers<void>();
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed.resolve());
  assertEquals((await client.listTools()).tools.length, 8);
  server.registerTool("newcomer", {}, () => ({ content: [] }));
  await changed.promise;
  const { tools } = await client.listTools();
  assertEquals(tools.at(-1)!.name, "test__newcomer");
});

Deno.test("a refusal is a log message too, for a client that requests warnings", async () => {
  const { guest } = await setUp({
    rules: `[profiles.rules.no]\naction = "block"\nmatch = 'mcp.request.tool_name == "fail"'`,
  });
  await using _ = guest;
  const client = await guest.client();
  const logged: Parsed[] = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logged.push(params));
  const refused = () => assertRejects(() => client.callTool({ name: "test__fail" }), McpError);
  await refused();
  await client.setLoggingLevel("warning");
  await refused();
  await client.setLoggingLevel("error");
  await refused();
  assertEquals(logged.map(({ level, logger }) => [level, logger]), [["warning", "policy"]]);
  assert(logged[0].data.startsWith("blocked by policy:"));
});

Deno.test("when the aggregator has ended each call fails, but no connection", async () => {
  const { guest, gate, catalogue } = await setUp();
  await using _ = guest;
  const client = await guest.client();
  const gone = () =>
    Promise.reject(
      new SbxError("mcp.channel_closed", "the MCP aggregator has ended", { hint: "try again in a moment" }),
    );
  Object.assign(catalogue, { callTool: gone, listTools: gone });
  for (const ask of [() => client.callTool({ name: "test__shout" }), () => client.listTools()]) {
    const error = await assertRejects(ask, McpError);
    assertEquals(error.code, -32603);
    assertEquals(error.data, { code: "mcp.channel_closed", hint: "try again in a moment" });
  }
  assertEquals((await client.ping()) as unknown, {});
  assertEquals(gate.entries.map(({ outcome }) => outcome!.error), [
    "the MCP aggregator has ended",
    "the MCP aggregator has ended",
  ]);
});

Deno.test("an agent that closes its stdin still receives its answers", async () => {
  const { guest, calls } = await setUp();
  await using _ = guest;
  const transport = new GuestTransport(await guest.connect());
  const answers: Parsed[] = [];
  transport.onmessage = (message) => answers.push(message);
  await transport.start();
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  await transport.sendLine(JSON.stringify({ jsonrpc: "2.0", id: "i", method: "initialize", params }));
  await transport.sendLine("this is not JSON");
  await transport.sendLine(JSON.stringify(call(7, "shout", { text: "a" })));
  await transport.sendLine(JSON.stringify(call(8, "shout", { text: "x".repeat(1024 * 1024) })));
  await transport.close();
  await eventually("all lines are read", () => answers.length === 4);
  const byId = new Map(answers.map((answer) => [answer.id, answer]));
  assertEquals(byId.get("i").result.protocolVersion, "2025-11-25");
  assertEquals(byId.get(7).result.content[0].text, "A");
  const errors = answers.filter(({ id }) => id === null).map(({ error }) => error.code);
  assertEquals(errors, [-32700, -32600]);
  assertEquals(calls.length, 1);
});

Deno.test("requests over the limit are rejected at once, and the others are answered", async () => {
  const { guest, gate } = await setUp({ limits: { inFlight: 3 } });
  await using _ = guest;
  const [one, other] = [await guest.initialized(), await guest.initialized()];
  for (let id = 1; id <= 2; id++) await one.send(call(id, "wait"));
  await eventually("two are under way", () => gate.entries.length === 2);
  await other.send(call(1, "wait"));
  await eventually("three are under way", () => gate.entries.length === 3);
  await other.send({ jsonrpc: "2.0", id: 9, method: "ping" });
  const refused: Parsed = await other.next();
  assertEquals([refused.id, refused.error.code], [9, -32603]);
  one.close();
  await eventually("places are free again", async () => {
    await other.send({ jsonrpc: "2.0", id: 10, method: "ping" });
    return (await other.next() as Parsed).result !== undefined;
  });
  other.close();
});

Deno.test("a guest that never reads is disconnected, and others are served meanwhile", async () => {
  const { guest, gate } = await setUp({ limits: { writeTimeoutMs: 300 } });
  await using _ = guest;
  const deaf = await guest.initialized();
  for (let id = 1; id <= 20; id++) await deaf.send(call(id, "big", { bytes: 900_000 }));
  const client = await guest.client();
  assertEquals(
    (await client.callTool({ name: "test__shout", arguments: { text: "a" } }) as Parsed).content[0].text,
    "A",
  );
  await guest.served[0];
  assertEquals(gate.entries.filter(({ outcome }) => outcome !== undefined).length, 21);
  // Data in the kernel's buffer remains readable; then the connection ends inside a frame.
  await assertRejects(async () => {
    while (await deaf.next() !== null);
    throw new Error("closed between frames");
  });
  deaf.close();
  assertEquals((await client.ping()) as unknown, {});
});
