/** Tools for ports of 127.0.0.1 that lead into a VM. */
import { z } from "zod";
import { Port, PortList, PortRequest } from "../../../lib/client/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Context, type Tool, tool, vm } from "../tool.ts";

const { guest_port, host_port } = PortRequest.shape;

/** Path of the ports of a VM that the agent may touch. */
async function portsPath(context: Context, idOrName: string): Promise<string> {
  return `/vms/${segment(await context.vm(idOrName))}/ports`;
}

export const PORT_TOOLS: Tool[] = [
  tool({
    name: "ports",
    title: "List the forwarded ports of a VM",
    description:
      "Lists ports of 127.0.0.1 on the person's machine that lead to ports of a VM. Ports of development servers (3000, 5173, " +
      "8000, 8080, or the ones that the VM's profile names) are forwarded automatically once a program of the VM listens.",
    input: z.strictObject({ vm }),
    output: PortList,
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (input, context) => await context.client.json("GET", await portsPath(context, input.vm)),
  }),
  tool({
    name: "open_port",
    title: "Forward a port to a VM",
    description:
      "Makes a server in a VM reachable at 127.0.0.1:host_port of the person's machine, such as http://127.0.0.1:5173 for their " +
      "browser, until `close_port` or the end of the VM. The VM's policy decides on each connection. Start the server with `start_job`.",
    input: z.strictObject({
      vm,
      guest_port,
      host_port: host_port.describe("default: the same number, or a free one where that is taken"),
    }),
    output: Port,
    hints: { readOnly: false, destructive: false, idempotent: true, openWorld: false },
    run: async ({ vm, ...json }, context) =>
      await context.client.json("POST", await portsPath(context, vm), { json }),
  }),
  tool({
    name: "close_port",
    title: "Close a forwarded port",
    description: "Closes a port that leads to a VM, with its connections. The server in the VM goes on.",
    input: z.strictObject({ vm, guest_port }),
    output: Port,
    hints: { readOnly: false, destructive: true, idempotent: false, openWorld: false },
    run: async ({ vm, guest_port }, context) =>
      await context.client.json("DELETE", `${await portsPath(context, vm)}/${guest_port}`),
  }),
];
