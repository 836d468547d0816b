/** The built-in server `local`: echo, and HTTP on the path of the guest's own requests. */
// @ts-types="@modelcontextprotocol/sdk/types"
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { LocalServer, type Send } from "../../../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { SdkCatalogue } from "../../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../../helper/mcp_endpoint_server.ts";
import type { Parsed } from "../../../helper/json.ts";

/** An external site, served on this machine. */
function site() {
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url);
    switch (pathname) {
      case "/echo":
        return new Response(`${request.method} ${request.headers.get("x-a")} ${await request.text()}`);
      case "/moved":
        return new Response(null, { status: 302, headers: { location: "/echo" } });
      case "/bytes":
        return new Response(new Uint8Array([0xff, 0xfe, 0]));
      case "/large":
        return new Response("é".repeat(200 * 1024));
    }
    return new Response("not here", { status: 404 });
  });
}

async function setUp(send?: Send) {
  const gate = new TestGate(`
[profiles.rules.no-echo]
action = "block"
match = 'mcp.request.namespaced_tool_name == "local__echo" && mcp.request.arguments.text == "secret"'
`);
  const catalogue = await SdkCatalogue.of(testServer().server, "test");
  const guest = new GuestSide({ gate, catalogue, local: new LocalServer({ send }) });
  return { guest, gate, client: await guest.client() };
}

Deno.test("local: its tools are listed with the others, and policy applies to them too", async () => {
  const { guest, gate, client } = await setUp();
  await using _ = guest;
  const { tools } = await client.listTools();
  assertEquals(tools.slice(0, 2).map(({ name }) => name), ["local__echo", "test__shout"]);
  const echoed = await client.callTool({ name: "local__echo", arguments: { text: "hä?" } });
  assertEquals(echoed.content, [{ type: "text", text: "hä?" }]);
  const event = gate.entries.at(-1)!.event.mcp!;
  assertEquals([event.request.server_name, event.request.tool_name], ["local", "echo"]);
  const blocked = () => client.callTool({ name: "local__echo", arguments: { text: "secret" } });
  assertEquals((await assertRejects(blocked, McpError)).code, -32600);
  const wrong = await client.callTool({ name: "local__echo", arguments: {} });
  assertEquals(wrong.isError, true);
  const missing = () => client.callTool({ name: "local__fetch_http", arguments: { url: "http://a/" } });
  assertEquals((await assertRejects(missing, McpError)).code, -32602);
});

Deno.test("local__fetch_http: sends any request and returns status, headers and body", async () => {
  await using server = site();
  const base = `http://127.0.0.1:${server.addr.port}`;
  const sent: string[] = [];
  const { guest, client } = await setUp((request) => {
    sent.push(`${request.method} ${request.url}`);
    return fetch(request);
  });
  await using _ = guest;
  assert((await client.listTools()).tools[1].outputSchema);
  const get = async (args: Record<string, unknown>) =>
    (await client.callTool({ name: "local__fetch_http", arguments: args })).structuredContent as Parsed;

  const posted = await get({ url: `${base}/echo`, method: "POST", headers: { "x-a": "b" }, body: "text" });
  assertEquals([posted.status, posted.body, posted.truncated], [200, "POST b text", false]);
  const moved = await get({ url: `${base}/moved` });
  assertEquals([moved.status, moved.headers.location], [302, "/echo"]);
  assertEquals((await get({ url: `${base}/bytes` })).body_base64, "//4A");
  const large = await get({ url: `${base}/large` });
  assertEquals([large.body.length, large.truncated], [128 * 1024, true]);
  assertEquals((await get({ url: `${base}/` })).status, 404);
  assertEquals(sent[0], `POST ${base}/echo`);
});

const BAD: [string, Record<string, unknown>][] = [
  ["no URL", {}],
  ["a path", { url: "/etc/passwd" }],
  ["a file", { url: "file:///etc/passwd" }],
  ["a method of its own", { url: "http://a/", method: "BREW" }],
  ["headers that are text", { url: "http://a/", headers: "a: b" }],
  ["a header of two lines", { url: "http://a/", headers: { a: "b\r\nc: d" } }],
  ["a body that is an object", { url: "http://a/", method: "POST", body: {} }],
  ["a body with GET", { url: "http://a/", body: "x" }],
];

Deno.test("local__fetch_http: invalid requests are reported, and refusals of policy passed on", async (t) => {
  let sent = 0;
  const { guest, client } = await setUp(() => {
    sent++;
    return Promise.reject(new SbxError("policy.blocked", "blocked by policy: no", { hint: "ask for it" }));
  });
  await using _ = guest;
  const failed = async (args: Record<string, unknown>) => {
    const { isError, content } = await client.callTool({ name: "local__fetch_http", arguments: args });
    assertEquals(isError, true);
    return (content as { text: string }[])[0].text;
  };
  for (const [name, args] of BAD) {
    await t.step(name, async () => assert((await failed(args)).includes("fetch_http")));
  }
  assertEquals(sent, 0);
  assertEquals(await failed({ url: "http://blocked.example/" }), "blocked by policy: no\nask your user");
});
