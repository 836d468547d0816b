/** Names of MCP tools in paths: through the gateway's matcher and the service's routes. */
import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import { routeMcp } from "../../../cmd/service/routes/mcp.ts";
import { toolSegment } from "../../../lib/client/mod.ts";
import { pathMatcher } from "../../../lib/client/gateway/route.ts";
import type { ProfileMcp } from "../../../lib/service/mod.ts";

Deno.test("every name of a tool reaches the service as it is, also one with a slash", async () => {
  const called: string[] = [];
  const mcp = {
    callTool: (_profile: string, _server: string, tool: string) => called.push(tool),
    approve: (_profile: string, _server: string, tool: string) => called.push(tool),
  };
  const app = new Hono();
  routeMcp(app, mcp as unknown as ProfileMcp);
  const names = ["plain", "a/b", "/", "../..", "~1", "a~b/~0~1c", "with space", "é%2F?#%"];
  for (const name of names) {
    for (const action of ["call", "approve"]) {
      const path = `/profiles/code/mcp/servers/s/tools/${toolSegment(name)}/${action}`;
      assertEquals(pathMatcher(`/profiles/{id}/mcp/servers/{sid}/tools/{tid}/${action}`)(path), true, path);
      const body = action === "call" ? "{}" : JSON.stringify({ after_hash: "0".repeat(64) });
      const headers = { "content-type": "application/json" };
      const response = await app.request(path, { method: "POST", body, headers });
      assertEquals(response.status, 200, await response.text());
    }
  }
  assertEquals(called, names.flatMap((name) => [name, name]));
});
