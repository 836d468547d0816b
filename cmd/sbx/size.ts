import { numberOf } from "./arguments.ts";
import type { Given, Option } from "./command.ts";

/** How large a new VM is; the limits are those of contracts.md §2. */
export const SIZE_OPTIONS: Option[] = [
  { name: "profile", value: "PROFILE", about: "profile of the VM, default code" },
  { name: "cpus", value: "N", about: "processors, 1 to 8" },
  { name: "ram", value: "MB", about: "memory, 256 to 16384" },
];

/** The fields of a request that {@linkcode SIZE_OPTIONS} give. */
export function sizeOf(given: Given): { profile_id?: string; cpus?: number; ram_mb?: number } {
  return {
    profile_id: given.text("profile"),
    cpus: numberOf(given, "cpus", { min: 1, max: 8 }),
    ram_mb: numberOf(given, "ram", { min: 256, max: 16384 }),
  };
}
