/** The commands and ports of a VM's `devcontainer.json`. */
import type { Port, VmSummary } from "../../../lib/client/api/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { DevcontainerCommand, DevcontainerSettings } from "../../../lib/release/environment/mod.ts";
import { lastWords } from "../output.ts";
import { VmGuest } from "../files/repository.ts";
import { streamAside } from "./program.ts";
import { showAsks } from "./shown_asks.ts";

/** Commands of a new VM, in their order; the last one also runs at each start. */
const OF_NEW_VM: DevcontainerCommand[] = [
  "onCreateCommand",
  "updateContentCommand",
  "postCreateCommand",
  "postStartCommand",
];
/** Longest time in which folders are made, in `s`. */
const VOLUME_SECONDS = 60;

type Named = Pick<VmSummary, "id" | "name">;

/**
 * Makes a new VM's folders for volumes, runs its commands, and forwards its ports.
 * @throws {SbxError} `devcontainer.*`
 */
export async function setUpDevcontainer(
  client: Client,
  vm: Named,
  settings: DevcontainerSettings,
): Promise<void> {
  await makeVolumes(client, vm, settings);
  await runCommands(client, vm, settings, OF_NEW_VM);
  await openPorts(client, vm, settings);
}

/** Runs the command of each start, and forwards the ports. @throws {SbxError} `devcontainer.*` */
export async function startDevcontainer(
  client: Client,
  vm: Named,
  settings: DevcontainerSettings,
): Promise<void> {
  await openPorts(client, vm, settings);
  await runCommands(client, vm, settings, ["postStartCommand"]);
}

/**
 * Runs commands in a VM, one after the other; the parts of one run at the same time. Their
 * output goes to standard error.
 *
 * @throws {SbxError} `devcontainer.command_failed`, `devcontainer.interrupted`: later ones did not run
 */
export async function runCommands(
  client: Client,
  vm: Named,
  { commands = [] }: DevcontainerSettings,
  names: readonly DevcontainerCommand[],
): Promise<void> {
  const chosen = commands.filter(({ name }) => names.includes(name));
  if (chosen.length === 0) return;
  const { withInterrupts } = await import("../../../lib/publish/image/mod.ts");
  using _asks = showAsks(client, vm.id);
  await withInterrupts(async (signal) => {
    for (const [at, { name, origin, run }] of chosen.entries()) {
      const later = [...new Set(chosen.slice(at).map((command) => command.name))];
      const hint = `"${vm.name}" stays as it is; mend it, then run ${
        later.length > 1 ? "them" : "it"
      } again: ${later.map((command) => `sbx devcontainer ${vm.name} ${command}`).join("; ")}`;
      const codes = await Promise.all(run.map(async ({ name: part, command }) => {
        const text = typeof command === "string" ? command : command.join(" ");
        note(`sbx: ${part ? `${name}.${part}` : name} of ${origin}: ${text.replaceAll("\n", " ")}`);
        const response = await client.send("POST", `/vms/${segment(vm.id)}/exec`, {
          json: { command },
          accept: "text/event-stream",
          signal,
        });
        return await streamAside(response);
      })).catch((error) => {
        if (!signal.aborted) throw error;
        throw new SbxError("devcontainer.interrupted", `${name} of ${origin} was interrupted`, { hint });
      });
      const failed = codes.findIndex((code) => code !== 0);
      if (failed < 0) continue;
      const part = run[failed].name;
      throw new SbxError(
        "devcontainer.command_failed",
        `${part ? `${name}.${part}` : name} of ${origin} failed with exit code ${codes[failed]}`,
        { hint },
      );
    }
  });
}

/** Forwards ports as `sbx port` does. One that cannot be forwarded is named. */
export async function openPorts(
  client: Client,
  vm: Named,
  { ports = [] }: Pick<DevcontainerSettings, "ports">,
): Promise<void> {
  for (const { port, label } of ports) {
    try {
      const json = { guest_port: port };
      const { host_port } = await client.json<Port>("POST", `/vms/${segment(vm.id)}/ports`, { json });
      note(`http://127.0.0.1:${host_port} leads to port ${port} of ${vm.name}${label ? ` (${label})` : ""}`);
    } catch (error) {
      const { message } = asSbxError(error, `forwarding port ${port}`);
      note(`sbx: port ${port} is not forwarded: ${message}; sbx port ${vm.name} ${port} tries again`);
    }
  }
}

/** A volume is a folder of the VM's own disk, which survives its stops. A new one belongs to the user. */
async function makeVolumes(
  client: Client,
  vm: Named,
  { volumes = [], user = "root" }: DevcontainerSettings,
): Promise<void> {
  if (volumes.length === 0) return;
  const script =
    'user=$1; shift; for folder; do [ -e "$folder" ] || { mkdir -p "$folder" && chown "$user" "$folder"; }; done';
  const words = ["sh", "-euc", script, "sh", user.split(":")[0], ...volumes];
  const { code, stderr } = await new VmGuest(client, vm.name).run(words, VOLUME_SECONDS);
  if (code === 0) return;
  throw new SbxError("devcontainer.volume", `a folder of mounts cannot be made: ${lastWords(stderr)}`, {
    hint: `"${vm.name}" stays as it is: sbx shell ${vm.name}`,
  });
}
