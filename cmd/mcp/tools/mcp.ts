/** Tools for the MCP servers of a VM's profile. */
import { z } from "zod";
import {
  McpCallResult,
  type McpServerList,
  McpServerView,
  type McpToolList,
  McpToolView,
  type VmInfo,
} from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment, toolSegment } from "../../../lib/client/mod.ts";
import { type Tool, tool, vm } from "../tool.ts";
import { AskSummary, AskWatch } from "./ask.ts";

export const MCP_TOOLS: Tool[] = [
  tool({
    name: "mcp_tools",
    title: "List the MCP tools of a VM",
    description:
      "Lists the MCP servers of a running VM's profile, and with `server` the tools of one of them. Programs in the VM " +
      "access them by starting sbx-mcp-server; call a tool from here with `mcp_call`.",
    input: z.strictObject({
      vm,
      server: z.string().min(1).optional().describe("name of a server whose tools to list"),
    }),
    output: z.object({ servers: z.array(McpServerView), tools: z.array(McpToolView) }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ server, ...input }, { client, vm }) => {
      const base = await serversOf(client, await vm(input.vm));
      const { servers } = await client.json<McpServerList>("GET", `${base}/list`);
      if (server === undefined) return { servers, tools: [] };
      const path = `${base}/${encodeURIComponent(server)}/tools/list`;
      return { servers, tools: (await client.json<McpToolList>("GET", path)).tools };
    },
  }),
  tool({
    name: "mcp_call",
    title: "Call an MCP tool of a VM",
    description:
      "Calls a tool of an MCP server of a running VM. The VM's policy and record apply, as to a call of a program in the VM. " +
      "`mcp_tools` shows names and input_schema. result.isError means that the tool itself failed.",
    input: z.strictObject({
      vm,
      name: z.string().regex(/^.+?__.+$/, "must be <server>__<tool>").describe(
        "namespaced_name of the tool",
      ),
      arguments: z.record(z.string(), z.unknown()).default({}).describe("arguments matching input_schema"),
    }),
    output: z.object({ ...McpCallResult.shape, asks: z.array(AskSummary) }),
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    run: async ({ name, arguments: args, ...input }, context) => {
      const vm = await context.vm(input.vm);
      const { client } = context;
      const at = name.indexOf("__");
      const server = encodeURIComponent(name.slice(0, at));
      const path = `${await serversOf(client, vm)}/${server}/tools/${toolSegment(name.slice(at + 2))}/call`;
      using watch = await AskWatch.open(context, vm);
      const answer = await client.json<McpCallResult>("POST", path, { json: { arguments: args, vm } });
      return { ...answer, asks: watch.asks };
    },
  }),
];

/** Route of the servers of a VM's profile. @throws {SbxError} `vm.wrong_state`: the VM is not running */
async function serversOf(client: Client, vm: string): Promise<string> {
  const { profile_id, status } = await client.json<VmInfo>("GET", `/vms/${segment(vm)}/info`);
  if (status === "Running") return `/profiles/${segment(profile_id, "profile")}/mcp/servers`;
  throw new SbxError(
    "vm.wrong_state",
    `the VM "${vm}" is ${status}; its MCP servers are available while it is Running`,
    { hint: "`start` boots a Stopped VM; `exec` waits for a Booting one" },
  );
}
