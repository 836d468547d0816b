import type { Port } from "../../../lib/client/api/mod.ts";
import type { Command } from "../../../lib/base/args/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { openInBrowser } from "../browser.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";

export const command: Command = {
  name: "open",
  usage: "NAME PORT",
  summary: "forward a port like sbx port, and open it in the browser",
  options: [],
  words: { min: 2, max: 2 },
  completes: ["vms", []],
  examples: ["sbx open demo 5173"],
  async run({ words: [name, port] }) {
    const guest_port = Number(port);
    if (!Number.isInteger(guest_port) || guest_port < 1 || guest_port > 65_535) {
      throw usageError(command, `invalid port "${port}"`);
    }
    const path = `/vms/${segment(name)}/ports`;
    const { host_port } = await (await connect()).json<Port>("POST", path, { json: { guest_port } });
    const url = `http://127.0.0.1:${host_port}/`;
    await print(url);
    await openInBrowser(url);
    return 0;
  },
};
