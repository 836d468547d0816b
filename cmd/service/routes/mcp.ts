import type { Hono } from "hono";
import { mcpRoutes } from "../../../lib/client/api/mod.ts";
import type { ProfileMcp } from "../../../lib/service/mod.ts";
import { handle, traceOf } from "../handle.ts";

/** Routes of the MCP servers of profiles (docs/design/contracts/08-mcp.md §8). */
export function routeMcp(app: Hono, mcp: ProfileMcp): void {
  handle(app, mcpRoutes.servers, ({ params }) => mcp.listServers(params.id));
  handle(app, mcpRoutes.tools, ({ params: { id, sid } }) => mcp.listTools(id, sid));
  handle(
    app,
    mcpRoutes.call,
    ({ params: { id, sid, tid }, body, context }) =>
      mcp.callTool(id, sid, toolOf(tid), { ...body, ...traceOf(context) }),
  );
  handle(app, mcpRoutes.refresh, ({ params: { id, sid } }) => mcp.refresh(id, sid));
  handle(app, mcpRoutes.login, ({ params: { id, sid }, body }) => mcp.logins.begin(id, sid, body));
  handle(app, mcpRoutes.loginState, ({ params: { id, sid } }) => mcp.logins.state(id, sid));
  handle(app, mcpRoutes.logout, ({ params: { id, sid } }) => mcp.logins.remove(id, sid));
  handle(app, mcpRoutes.changes, async ({ params }) => ({ changes: await mcp.listChanges(params.id) }));
  handle(
    app,
    mcpRoutes.approve,
    ({ params: { id, sid, tid }, body }) => mcp.approve(id, sid, toolOf(tid), body.after_hash),
  );
}

/**
 * Name of the tool in a path: `~1` is `/` and `~2` is `%`, which no segment of a
 * path can hold, and `~0` is `~`.
 */
function toolOf(segment: string): string {
  return segment.replaceAll("~2", "%").replaceAll("~1", "/").replaceAll("~0", "~");
}
