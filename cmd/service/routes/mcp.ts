import type { Hono } from "hono";
import {
  type McpCall,
  type McpChange,
  mcpRoutes,
  type McpServerList,
  type McpToolList,
} from "../../../lib/api/mod.ts";
import type { CorpStore } from "../../../lib/corp/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { loadProfile } from "../../../lib/profile/mod.ts";
import { corpLayer, type Governance, type Vm } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** The MCP servers of profiles, through a VM that runs with the profile. */
export function routeMcp(app: Hono, governance: Governance, corp: CorpStore, home: Home): void {
  handle(app, mcpRoutes.servers, async ({ params: { id } }): Promise<McpServerList> => {
    const [vm] = governance.running(id);
    if (vm) {
      const servers = await governance.value<McpServerList["servers"]>(vm, { t: "McpListServers" });
      return { servers, vm: vm.record.name };
    }
    const { definitionsOf, unconnected } = await import("../../../lib/mcp/mod.ts");
    const { mcp } = await loadProfile(home, id);
    const definitions = definitionsOf(mcp, (await corpLayer(corp)).mcp);
    return { servers: unconnected(definitions, `no VM runs with profile "${id}"`) };
  });
  handle(app, mcpRoutes.tools, async ({ params: { id, sid } }): Promise<McpToolList> => {
    const vm = await runningVm(id);
    const tools = await governance.value<McpToolList["tools"]>(vm, { t: "McpListTools" });
    return { tools: tools.filter(({ server_name }) => server_name === sid), vm: vm.record.name };
  });
  handle(app, mcpRoutes.call, async ({ params: { id, sid, tid }, body }) => {
    const { arguments: args = {}, vm: wanted } = body as McpCall;
    const vm = await runningVm(id, wanted);
    const call = { t: "McpCallTool" as const, name: `${sid}__${tid}`, arguments: args };
    return { result: await governance.value(vm, call), vm: vm.record.name };
  });
  handle(app, mcpRoutes.refresh, async ({ params: { id, sid } }) => {
    const { mcp } = await loadProfile(home, id);
    const ofCorp = (await corpLayer(corp)).mcp;
    if (!Object.hasOwn(mcp, sid) && !Object.hasOwn(ofCorp, sid)) {
      throw new SbxError("mcp.server.not_found", `profile "${id}" has no MCP server "${sid}"`, {
        hint: `sbx mcp servers -p ${id} lists them`,
      });
    }
    const { refreshed, failed } = await governance.refreshProfile(id, { t: "McpRefreshTools" });
    return { success: failed.length === 0, server_id: sid, instances: refreshed.length };
  });
  handle(app, mcpRoutes.changes, async ({ params: { id } }) => {
    await loadProfile(home, id);
    const changes = await (await pinsOf(id)).changes();
    return { changes: await Promise.all(changes.map(withDiff)) };
  });
  handle(app, mcpRoutes.approve, async ({ params: { id, sid, tid } }) => {
    await loadProfile(home, id);
    const change = await (await pinsOf(id)).approve(sid, tid);
    await Promise.all(governance.running(id).map((vm) => governance.tell(vm, { t: "McpRecheck" })));
    return await withDiff(change);
  });

  /** @throws {SbxError} `vm.not_found`, `mcp.conflict` when no VM of the profile runs */
  async function runningVm(profileId: string, wanted?: string): Promise<Vm> {
    await loadProfile(home, profileId);
    const all = governance.running(profileId);
    const vm = wanted === undefined
      ? all[0]
      : all.find(({ record }) => record.id === wanted || record.name === wanted);
    if (vm) return vm;
    const what = wanted === undefined
      ? `no VM runs with profile "${profileId}"`
      : `no VM called "${wanted}" runs with profile "${profileId}"`;
    throw new SbxError("mcp.conflict", `${what}, and MCP servers are reached through one`, {
      hint: all.length && wanted !== undefined
        ? `these do: ${all.map(({ record }) => record.name).join(", ")}`
        : `sbx list shows the VMs and their profiles; sbx create --profile ${profileId} starts one`,
    });
  }

  async function pinsOf(profileId: string) {
    const { PinStore } = await import("../../../lib/mcp/mod.ts");
    const { pinsPath } = await import("../../../lib/session/mod.ts");
    return new PinStore(pinsPath(home, profileId));
  }
}

async function withDiff(change: Omit<McpChange, "diff">): Promise<McpChange> {
  const { definitionDiff, renderDiff } = await import("../../../lib/mcp/mod.ts");
  const diff = definitionDiff(change.before, change.after).map(({ field, parts }) => ({
    field,
    text: renderDiff(parts),
  }));
  return { ...change, diff };
}
