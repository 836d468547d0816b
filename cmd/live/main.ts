/** sbx-live: guards the file server of a VM that has a folder of the host (docs/guides/live.md). */
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { LiveShare, serveLive } from "../../lib/machine/live/mod.ts";

const NAME = "sbx-live";
const USAGE = `${NAME} SHARE SERVER…

Runs the file server of a VM and keeps it within the folder that the VM shares with this host. sbx-process
starts it, with the share as JSON and the command of the server; it is of no use by hand.
`;

/** @param args the share as JSON, and the file server with its arguments. @returns the exit code */
export function main(args: string[]): Promise<number> {
  return runRole({ name: NAME, usage: USAGE, doing: "serving a live folder", run }, args);
}

async function run(args: string[]): Promise<number> {
  const [share, ...server] = args;
  const parsed = LiveShare.safeParse(asJson(share));
  if (!parsed.success || server.length === 0) throw unknownArguments(NAME, args);
  return await serveLive(parsed.data, server);
}

function asJson(text = ""): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
