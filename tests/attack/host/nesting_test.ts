/**
 * JSON nested so deep that whatever reads it recursively overflows its stack: refused
 * where it is parsed, and recorded.
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { makeApp } from "../../../cmd/service/app.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { JSON_DEPTH_MAX, parseJson } from "../../../lib/base/json/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { ModelReader, PARSE_ERROR } from "../../../lib/network/model/mod.ts";
import { Service } from "../../../lib/service/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { SdkCatalogue } from "../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../helper/mcp_endpoint_server.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const LEVELS = 5000;
const DEEP = '{"a":'.repeat(LEVELS) + "1" + "}".repeat(LEVELS);

/** One model call, whose provider answers with `body`. */
async function callModel(body: unknown, path: string, request: unknown) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const upstream = fixedUpstream(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  await using net = await TestNet.open({ models: new ModelReader(), target: () => upstream.target });
  const client = await net.client();
  const sent = JSON.stringify(request);
  const answer = await client.ask(
    `POST ${path} HTTP/1.1\r\nHost: api.openai.com\r\ncontent-type: application/json\r\ncontent-length: ${sent.length}\r\n\r\n${sent}`,
  );
  assertEquals([answer.status, answer.body], [200, text]);
  client.close();
  await net.idle();
  upstream.close();
  const entry = net.gate.entries.find(({ event }) => event.model);
  return entry?.outcome?.response as { stop_reason?: string; tool_calls: unknown[] } | undefined;
}

const CHAT = { model: "gpt-4o", messages: [{ role: "user", content: "x" }] };
const answerWith = (call: unknown) => ({
  id: "1",
  object: "chat.completion",
  choices: [{ finish_reason: "tool_calls", message: { role: "assistant", tool_calls: [call] } }],
});

Deno.test("a tool call of a model with deep arguments keeps its name, and its arguments as text", async () => {
  const call = { id: "c", type: "function", function: { name: "delete_all", arguments: DEEP } };
  const response = await callModel(answerWith(call), "/v1/chat/completions", CHAT);
  assertEquals(response?.tool_calls, [{ name: "delete_all", arguments: DEEP }]);
});

Deno.test("an answer of a model that is itself nested too deep is recorded as unreadable", async () => {
  const text = JSON.stringify(answerWith({ function: { name: "x", arguments: "@" } })).replace('"@"', DEEP);
  const response = await callModel(text, "/v1/chat/completions", CHAT);
  assertEquals([response?.stop_reason, response?.tool_calls], [PARSE_ERROR, []]);
});

Deno.test("MCP: a call with deep arguments, and a frame nested deeper still, are refused on record", async () => {
  const gate = new TestGate();
  const guest = new GuestSide({ gate, catalogue: await SdkCatalogue.of(testServer().server, "test") });
  await using _ = guest;
  const channel = await guest.initialized();
  const call = (args: unknown) => ({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "test__shout", arguments: args },
  });
  await channel.send(call(parseJson('{"a":'.repeat(70) + "1" + "}".repeat(70), 100)));
  const { error } = await channel.next() as { error: { code: number } };
  assertEquals(error.code, -32602);
  await channel.send(call(JSON.parse('{"a":'.repeat(1000) + "1" + "}".repeat(1000))));
  const closed = await channel.next() as { error: { code: number; message: string } };
  assertStringIncludes(closed.error.message, "nested deeper than 256 levels");
  assertEquals(
    gate.entries.map(({ event, decision }) => [
      event.common.event_type,
      event.mcp!.request.namespaced_tool_name,
      decision!.decision,
      decision!.rule.id,
    ]),
    [
      ["mcp.tool_call", "test__shout", "block", "guard-malformed-mcp"],
      ["mcp.event", "", "block", "guard-malformed-mcp"],
    ],
  );
});

Deno.test("the API answers a deep body with 400, on every route that takes one", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const corp = new CorpStore(home, { managed: `${dir}/corp.toml` });
  const settings = await SettingsStore.open({ home, corp, definitions: await loadDefinitions() });
  const app = makeApp(new Service({ home, settings, corp }));
  const routes = [
    [
      "POST",
      "/profiles/code/enforcement/evaluate",
      `{"event":{"common":{"event_type":"mcp.tool_call"},"mcp":{"request":{"arguments":${DEEP}}}}}`,
    ],
    ["POST", "/detection", DEEP],
    ["POST", "/detection/compile", DEEP],
    ["POST", "/vms/create", DEEP],
    ["PATCH", "/settings/edit", DEEP],
  ];
  for (const [method, path, body] of routes) {
    const response = await app.request(path, {
      method,
      body,
      headers: { "content-type": "application/json" },
    });
    const { code, error } = await response.json();
    assertEquals([response.status, code], [400, "request.invalid"], path);
    assertStringIncludes(error, `nested deeper than ${JSON_DEPTH_MAX} levels`);
  }
  await Deno.remove(dir, { recursive: true });
});
