import type { CreateRequest } from "../../../lib/client/api/mod.ts";
import { type Arch, parseArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** Architecture of a guest. */
export const ARCH_OPTION: Option = {
  name: "arch",
  value: "ARCH",
  about: "x86_64 or arm64; default this machine's, the other one is emulated",
};

/** Options for the size of a new VM (limits: docs/design/contracts/02-http.md §2). */
export const SIZE_OPTIONS: Option[] = [
  { name: "profile", value: "PROFILE", about: "profile of the VM; default code" },
  { name: "cpus", value: "N", about: "number of CPUs, 1 to 8" },
  {
    name: "ram",
    value: "SIZE",
    about: "memory: GiB as in ram_gb (1 to 16), or MiB (512m; from 256 on without m)",
  },
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
    ram_mb: ramOf(args.text("ram")),
    arch: archOf(args),
  };
}

/** Bounds of a VM's memory, in `MiB` (docs/design/contracts/02-http.md §2). */
const RAM_MIN = 256, RAM_MAX = 16 * 1024;
/** Most `GiB`: a larger number without a unit is in MiB, as in older versions. */
const RAM_GIB_MAX = RAM_MAX / 1024;

/** Reads a size of memory: `4`, `4g` and `4096m` are the same. @returns `MiB` */
function ramOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, digits, unit] = /^(\d+(?:\.\d+)?)\s*(g|m)?(?:i?b)?$/i.exec(text.trim()) ?? [];
  const value = Number(digits);
  const isMib = unit === undefined ? value > RAM_GIB_MAX : unit.toLowerCase() === "m";
  const mib = isMib ? value : value * 1024;
  if (Number.isInteger(mib) && mib >= RAM_MIN && mib <= RAM_MAX) return mib;
  throw new SbxError("usage.invalid", `invalid value "${text}" of --ram`, {
    hint: `give 1 to ${RAM_GIB_MAX} for GiB, or ${RAM_MIN}m to ${RAM_MAX}m for MiB`,
  });
}

/** Size of memory for people: `2 GiB`, `1536 MiB`. */
export function formatRam(mib: number): string {
  return mib % 1024 === 0 ? `${mib / 1024} GiB` : `${mib} MiB`;
}

/** Value of {@linkcode ARCH_OPTION}. @throws {SbxError} `arch.invalid` */
export function archOf(args: Arguments): Arch | undefined {
  const text = args.text("arch");
  return text === undefined ? undefined : parseArch(text);
}
