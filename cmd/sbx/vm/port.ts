import type { Port, PortList } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { table, usageError } from "../output.ts";

export const command: Command = {
  name: "port",
  usage: "NAME [PORT[:HOST_PORT]] [--remove] [--json]",
  summary: "forward a port of 127.0.0.1 to a VM; without PORT, list them",
  notes: [
    "The forward ends with the VM. Policy decides on each connection as on a program sbx-port with PORT as its argument.",
    "HOST_PORT is PORT by default, or a free port if that is taken.",
  ],
  options: [{ name: "remove", about: "close the port, with its connections" }, JSON_OPTION],
  words: { min: 1, max: 2 },
  completes: ["vms", []],
  examples: ["sbx port demo 5173", "sbx port demo 5173:8080", "sbx port demo", "sbx port demo 5173 --remove"],
  async run(args) {
    const [name, spec] = args.words;
    if (spec === undefined && args.has("remove")) throw usageError(command, "--remove needs a PORT");
    const path = `/vms/${segment(name)}/ports`;
    const client = await connect();
    if (spec === undefined) return await list(args, name, await client.json<PortList>("GET", path));
    const json = parsePort(spec);
    const port = args.has("remove")
      ? await client.json<Port>("DELETE", `${path}/${json.guest_port}`)
      : await client.json<Port>("POST", path, { json });
    if (args.has("json")) await printJson(port);
    else if (args.has("remove")) await print(`closed 127.0.0.1:${port.host_port}`);
    else await print(`http://127.0.0.1:${port.host_port} leads to port ${port.guest_port} of ${name}`);
    return 0;
  },
};

async function list(args: Arguments, name: string, answer: PortList): Promise<number> {
  const rows = answer.ports.map(({ guest_port, host_port, connections }) => [
    `${guest_port}`,
    `127.0.0.1:${host_port}`,
    `${connections}`,
  ]);
  if (args.has("json")) await printJson(answer);
  else if (rows.length === 0) await print("no ports: sbx port NAME PORT forwards one");
  else await print(table(["PORT", "HOST", "CONNECTIONS"], rows));
  const [first, ...others] = (answer.named ?? []).filter((port) =>
    !answer.ports.some(({ guest_port }) => guest_port === port)
  );
  if (first !== undefined && !args.has("json")) {
    const and = others.length > 0 ? `, and ${others.join(", ")}` : "";
    note(`its image names port ${first}${and}: sbx port ${name} ${first}`);
  }
  return 0;
}

/** Parses `5173` or `5173:8080`. @throws {SbxError} `usage.invalid` */
function parsePort(spec: string): { guest_port: number; host_port?: number } {
  const [guest, host] = spec.split(":").map((text) => /^\d{1,5}$/.test(text) ? Number(text) : NaN);
  const isPort = (port: number) => port >= 1 && port <= 65_535;
  if (isPort(guest) && spec.split(":").length <= 2 && (host === undefined || isPort(host))) {
    return { guest_port: guest, host_port: host };
  }
  throw usageError(command, `invalid port "${spec}"`, "write PORT or PORT:HOST_PORT, such as 5173:8080");
}
