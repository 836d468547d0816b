import type { Arguments, Option } from "../../lib/base/args/mod.ts";

/** Options for the size of a new VM (limits: docs/contracts.md §2). */
export const SIZE_OPTIONS: Option[] = [
  { name: "profile", value: "PROFILE", about: "profile of the VM; default code" },
  { name: "cpus", value: "N", about: "number of CPUs, 1 to 8" },
  { name: "ram", value: "MB", about: "memory in MB, 256 to 16384" },
];

/** Request fields of {@linkcode SIZE_OPTIONS}. */
export function sizeOf(args: Arguments): { profile_id?: string; cpus?: number; ram_mb?: number } {
  return {
    profile_id: args.text("profile"),
    cpus: args.number("cpus", { min: 1, max: 8 }),
    ram_mb: args.number("ram", { min: 256, max: 16384 }),
  };
}
