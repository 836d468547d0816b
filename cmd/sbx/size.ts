import type { CreateRequest } from "../../lib/api/mod.ts";
import { type Arch, parseArch } from "../../lib/base/arch/mod.ts";
import type { Arguments, Option } from "../../lib/base/args/mod.ts";

/** Architecture of a guest. */
export const ARCH_OPTION: Option = {
  name: "arch",
  value: "ARCH",
  about: "x86_64 or arm64; default this machine's, the other one is emulated",
};

/** Options for the size of a new VM (limits: docs/contracts.md §2). */
export const SIZE_OPTIONS: Option[] = [
  { name: "profile", value: "PROFILE", about: "profile of the VM; default code" },
  { name: "cpus", value: "N", about: "number of CPUs, 1 to 8" },
  { name: "ram", value: "MB", about: "memory in MB, 256 to 16384" },
  {
    name: "arch",
    value: "ARCH",
    about: "x86_64 or arm64; default this machine's, the other one is emulated",
  },
];

/** Request fields of {@linkcode SIZE_OPTIONS}. */
export function sizeOf(args: Arguments): Pick<CreateRequest, "profile_id" | "cpus" | "ram_mb" | "arch"> {
  return {
    profile_id: args.text("profile"),
    cpus: args.number("cpus", { min: 1, max: 8 }),
    ram_mb: args.number("ram", { min: 256, max: 16384 }),
    arch: archOf(args),
  };
}

/** Value of {@linkcode ARCH_OPTION}. @throws {SbxError} `arch.invalid` */
export function archOf(args: Arguments): Arch | undefined {
  const text = args.text("arch");
  return text === undefined ? undefined : parseArch(text);
}
