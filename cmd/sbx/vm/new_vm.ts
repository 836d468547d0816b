/** A new VM: the options of its size, and its boot. */
import type { CreateRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arch, parseArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { Spinner } from "../output.ts";
import { note } from "../../../lib/base/print/mod.ts";

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
  ARCH_OPTION,
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

/** First and longest time between two checks, in `ms`: a VM that was started ahead is ready at once. */
const POLL_MS = 10;
const POLL_MAX_MS = 100;

/** Waits until a VM is running. @throws {SbxError} `vm.boot_failed`: the VM stopped or failed instead */
export async function waitUntilRunning(client: Client, { id, name }: VmSummary): Promise<void> {
  using _spinner = new Spinner(`booting ${name}`);
  for (let wait = POLL_MS;; wait = Math.min(wait * 1.5, POLL_MAX_MS)) {
    const { status, last_error } = await client.json<VmSummary>("GET", `/vms/${segment(id)}/status`);
    if (status === "Running") return;
    if (status !== "Booting") {
      throw new SbxError(
        "vm.boot_failed",
        `"${name}" did not boot: ${last_error ?? `its status is ${status}`}`,
        {
          hint: `sbx logs ${name} shows why; sbx delete ${name} removes it`,
        },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** Runs the work a new VM was made for; if that fails, deletes the VM, which is empty, to free its name. */
export async function completeVm<T>(
  client: Client,
  { id, name }: { id: string; name: string },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isDeleted = await client.json("DELETE", `/vms/${segment(id)}/delete?force=true`).then(
      () => true,
      () => false,
    );
    if (isDeleted) note(`sbx: deleted the new VM "${name}" again; it was empty`);
    throw error;
  }
}
