/** sbx-mcp --http: MCP for clients with the gateway's token only. */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { TOOLS } from "../../../cmd/mcp/server.ts";
import { limitChild } from "../../helper/child.ts";
import { emptyHome } from "../../helper/mcp_host.ts";
import { fromRoot } from "../../helper/repo.ts";
import type { Sbx } from "../../helper/sbx.ts";

/** Starts `sbx-mcp --http` in a home, on a free port. */
async function serve(sbx: Sbx) {
  const child = limitChild(new Deno.Command(fromRoot("bin/sbx-mcp"), {
    args: ["--http", "--port", "0"],
    env: sbx.env,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn());
  const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
  let output = "";
  while (!/\/mcp/.test(output)) output += (await reader.read()).value ?? "";
  const url = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(output)![0];
  reader.cancel();
  const end = async () => {
    child.kill("SIGTERM");
    assertEquals((await child.status).code, 0);
  };
  return { url, end };
}

const PING = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
const JSON_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

Deno.test("sbx-mcp --http: serves requests with the token only", async (t) => {
  const sbx = await emptyHome();
  const { url, end } = await serve(sbx);
  const connect = async (token: string) => {
    const client = new Client({ name: "agent", version: "1.0.0" });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    return client;
  };
  const post = (headers: Record<string, string>, init: RequestInit = {}, to = url) =>
    fetch(to, { method: "POST", body: PING, ...init, headers: { ...JSON_HEADERS, ...headers } });
  const refused = async (response: Response) => [response.status, (await response.json()).code];
  try {
    await t.step("without a running gateway no token is valid, and nothing is started", async () => {
      assertEquals(await refused(await post({ authorization: "Bearer x" })), [401, "auth.bad_token"]);
      await assertRejects(() => Deno.stat(`${sbx.home}/run/service.pid`), Deno.errors.NotFound);
    });
    await sbx.ok("start");

    await t.step(
      "requests without the token, of a foreign origin, or to another path are refused",
      async () => {
        const authorization = `Bearer ${sbx.token}`;
        const cases: [Record<string, string>, RequestInit, string, unknown[]][] = [
          [{}, {}, url, [401, "auth.missing_token"]],
          [{ authorization: `Bearer ${"x".repeat(64)}` }, {}, url, [401, "auth.bad_token"]],
          [{ authorization, origin: "https://evil.example" }, {}, url, [403, "auth.bad_origin"]],
          [{ authorization }, {}, url.replace("/mcp", "/vms/list"), [404, "route.not_found"]],
        ];
        for (const [headers, init, to, expected] of cases) {
          assertEquals(await refused(await post(headers, init, to)), expected, JSON.stringify(headers));
        }
        assertEquals((await post({ authorization })).status, 200);
        const get = await fetch(url, { headers: { ...JSON_HEADERS, authorization } });
        assertEquals([get.status, get.headers.get("allow")], [405, "POST"]);
        await get.body?.cancel();
        const large = await post({ authorization }, { body: `"${"x".repeat(11 * 1024 * 1024)}"` });
        assertEquals(large.status, 413);
        await large.body?.cancel();
      },
    );

    await t.step("a page whose host name resolves to this machine is refused", async () => {
      const { hostname, port } = new URL(url);
      using conn = await Deno.connect({ hostname, port: Number(port) });
      const head =
        `POST /mcp HTTP/1.1\r\nhost: evil.example:${port}\r\nauthorization: Bearer ${sbx.token}\r\n`;
      await conn.write(new TextEncoder().encode(`${head}connection: close\r\ncontent-length: 0\r\n\r\n`));
      const answer = new Uint8Array(4096);
      const read = await conn.read(answer);
      assert(new TextDecoder().decode(answer.subarray(0, read!)).startsWith("HTTP/1.1 403"));
    });

    await t.step("the SDK's client lists and calls tools, and receives errors", async () => {
      const client = await connect(sbx.token);
      assertEquals((await client.listTools()).tools.length, TOOLS.length);
      assertEquals((await client.callTool({ name: "list" })).structuredContent, { vms: [] });
      assertEquals((await client.callTool({ name: "info", arguments: { vm: "nobody" } })).isError, true);
      await client.close();
    });

    await t.step("each start of the gateway has a new token", async () => {
      const old = sbx.token;
      await sbx.ok("stop", "--all");
      await sbx.ok("start");
      await assertRejects(() => connect(old));
      assertEquals((await (await connect(sbx.token)).listTools()).tools.length, TOOLS.length);
    });
  } finally {
    await end();
    await sbx.dispose();
  }
});
