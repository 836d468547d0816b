/** Files of a machine's image: its memory, the state of its devices, and which of them were plugged in. */
import { join } from "node:path";
import { z } from "zod";
import type { Pluggable } from "./command.ts";
import type { MachineImage } from "./hypervisor.ts";

const Plugged = z.strictObject({ plugged: z.array(z.enum(["files"])) });

export function ramPath({ dir }: MachineImage): string {
  return join(dir, "ram");
}

export function statePath({ dir }: MachineImage): string {
  return join(dir, "state");
}

/** Devices that the image's machine had beyond every machine's. */
export async function readPlugged(image: MachineImage): Promise<Pluggable["id"][]> {
  return Plugged.parse(JSON.parse(await Deno.readTextFile(pluggedPath(image)))).plugged;
}

export async function writePlugged(image: MachineImage, plugged: Pluggable["id"][]): Promise<void> {
  await Deno.writeTextFile(pluggedPath(image), JSON.stringify({ plugged }), { createNew: true, mode: 0o600 });
}

function pluggedPath({ dir }: MachineImage): string {
  return join(dir, "machine.json");
}
