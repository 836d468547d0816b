/** `sbx update restart`: processes that still run a replaced program, started again with the new one. */
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import type { SystemStatus, VmListed } from "../../../lib/client/api/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { segment, stopDaemon } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";

export const restart: Command = {
  name: "update restart",
  usage: "[--stop] [--json]",
  summary: "restart the service, the gateway and VMs that still run a replaced program",
  notes: [
    "VMs are suspended and resumed, with their programs, where this host can do so. Others are restarted with --stop, which ends their programs; without it they stay, are named, and the exit code is 1.",
  ],
  options: [{ name: "stop", about: "also stop and start VMs that cannot be suspended" }, JSON_OPTION],
  examples: ["sbx update restart", "sbx update restart --stop"],
  run,
};

async function run(args: Arguments): Promise<number> {
  const place = home();
  const before = await connect();
  const { old_programs } = await before.json<SystemStatus>("GET", "/system/status");
  before.http?.close();
  const restarted: string[] = [], left: { vm: string; why: string }[] = [];
  for (const daemon of ["gateway", "service"] as const) {
    if (!old_programs.some(({ program }) => program === daemon)) continue;
    if (await stopDaemon(place, daemon)) restarted.push(daemon);
  }
  const client = await connect();
  const { vms } = await client.json<{ vms: VmListed[] }>("GET", "/vms/list?all=true");
  for (const { id, name, available_actions, parent } of vms.filter(({ old_program }) => old_program)) {
    // A VM of an MCP server is made again by the VM that it belongs to.
    if (parent) continue;
    const order = (action: string) => client.json("POST", `/vms/${segment(id)}/${action}`);
    const [down, up] = available_actions.includes("suspend") ? ["suspend", "resume"] : ["stop", "start"];
    if (down === "stop" && !args.has("stop")) {
      left.push({ vm: name, why: "it cannot be suspended on this host; --stop restarts it" });
      continue;
    }
    try {
      await order(down);
      await order(up);
      restarted.push(`VM ${name}`);
    } catch (cause) {
      left.push({ vm: name, why: asSbxError(cause, `restarting ${name}`).message });
    }
  }
  if (args.has("json")) await printJson({ restarted, left });
  else {
    await print(
      restarted.length > 0 ? `restarted: ${restarted.join(", ")}` : "nothing runs a replaced program",
    );
    for (const { vm, why } of left) note(`sbx: ${vm} runs on: ${why}`);
  }
  return left.length === 0 ? 0 : 1;
}
