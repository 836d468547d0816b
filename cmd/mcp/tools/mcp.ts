/** Tools of the MCP servers that a VM has through its profile. */
import { z } from "zod";
import {
  McpCallResult,
  type McpServerList,
  McpServerView,
  type McpToolList,
  McpToolView,
} from "../../../lib/api/mcp.ts";
import type { VmInfo } from "../../../lib/api/vm.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Tool, tool } from "../tool.ts";
import { vm } from "./common.ts";

export const MCP_TOOLS: Tool[] = [
  tool({
    name: "mcp_tools",
    title: "List the MCP tools of a VM",
    description:
      "The MCP servers that a running VM has through its profile, and with `server` the tools of one of them. A program in " +
      "the VM reaches them by starting sbx-mcp-server; to call one from here use `mcp_call`.",
    input: z.strictObject({
      vm,
      server: z.string().min(1).optional().describe("name of a server whose tools are wanted"),
    }),
    output: z.object({ servers: z.array(McpServerView), tools: z.array(McpToolView) }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async ({ vm, server }, { client }) => {
      const base = await serversOf(client, vm);
      const { servers } = await client.json<McpServerList>("GET", `${base}/list`);
      if (server === undefined) return { servers, tools: [] };
      const path = `${base}/${part(server)}/tools/list`;
      return { servers, tools: (await client.json<McpToolList>("GET", path)).tools };
    },
  }),
  tool({
    name: "mcp_call",
    title: "Call an MCP tool of a VM",
    description:
      "Calls a tool of one of the MCP servers of a running VM, through that VM's policy and into its record, as if a program " +
      "in it had. `mcp_tools` shows names and input_schema. result.isError tells that the tool itself failed.",
    input: z.strictObject({
      vm,
      name: z.string().regex(/^.+?__.+$/, "a name is <server>__<tool>").describe(
        "namespaced_name of the tool",
      ),
      arguments: z.record(z.string(), z.unknown()).default({}).describe("as its input_schema says"),
    }),
    output: McpCallResult,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: true },
    run: async ({ vm, name, arguments: args }, { client, signal }) => {
      const at = name.indexOf("__");
      const [server, tool] = [name.slice(0, at), name.slice(at + 2)].map(part);
      const path = `${await serversOf(client, vm)}/${server}/tools/${tool}/call`;
      return await client.json("POST", path, { json: { arguments: args, vm }, signal });
    },
  }),
];

/** A name as one segment of a path. */
function part(name: string): string {
  if (!name.includes("/")) return encodeURIComponent(name);
  throw new SbxError("mcp.invalid", `"${name}" has a / in it, and cannot be called from outside of the VM`, {
    hint: "call it in the VM, through sbx-mcp-server",
  });
}

/** The route of the servers of a VM's profile. @throws SbxError `vm.wrong_state` for one that does not run */
async function serversOf(client: Client, vm: string): Promise<string> {
  const { profile_id, status } = await client.json<VmInfo>("GET", `/vms/${segment(vm)}/info`);
  if (status === "Running") return `/profiles/${segment(profile_id, "profile")}/mcp/servers`;
  throw new SbxError(
    "vm.wrong_state",
    `the VM "${vm}" is ${status}, and MCP servers are reached through one that runs`,
    {
      hint: "`start` boots a VM that is Stopped; `exec` waits for the boot of one that is Booting",
    },
  );
}
