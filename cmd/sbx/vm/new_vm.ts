/** A new VM: the options of its size, and its boot. */
import type { CreateRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arch, ARCHES, parseArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { Spinner } from "../output.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { sizeOption } from "./size.ts";

/** Architecture of a guest. */
export const ARCH_OPTION: Option = {
  name: "arch",
  value: "ARCH",
  about: "x86_64 or arm64; default this machine's, the other one is emulated",
  completes: ARCHES,
};

/** Options for the size of a new VM (limits: docs/design/contracts/02-http.md §2). */
export const SIZE_OPTIONS: Option[] = [
  { name: "profile", value: "PROFILE", about: "profile of the VM; default code", completes: "profiles" },
  { name: "cpus", value: "N", about: "number of CPUs; 8, or as many as this host has" },
  {
    name: "ram",
    value: "SIZE",
    about: "memory, as 4G or 512M; 16 GiB, or as much as this host has",
  },
  ARCH_OPTION,
];

/** Keys of a VM. */
export const CREDENTIAL_OPTION: Option = {
  name: "credential",
  value: "PROVIDER=LABEL",
  about: "use the key of this provider that has this label, and no other of it (repeatable)",
  many: true,
};

/**
 * Request field of {@linkcode CREDENTIAL_OPTION}.
 *
 * @param provider of a value that is a label alone
 */
export function credentialsOf(args: Arguments, provider?: string): Pick<CreateRequest, "credentials"> {
  const values = args.list("credential");
  if (values.length === 0) return {};
  const pairs = values.map((value): [string, string] => {
    const [, id, label] = /^([a-z][a-z0-9-]{0,31})=(.+)$/s.exec(value) ??
      (provider === undefined ? [] : [value, provider, value]);
    if (id !== undefined && label !== undefined && label !== "") return [id, label];
    throw new SbxError("usage.invalid", `invalid value "${value}" of --credential`, {
      hint: "give PROVIDER=LABEL, as anthropic=work; sbx credentials list shows the labels",
    });
  });
  const credentials = Object.fromEntries(pairs);
  if (Object.keys(credentials).length < pairs.length) {
    throw new SbxError("usage.invalid", "--credential names two keys of one provider", {
      hint: "a VM uses one label of each provider",
    });
  }
  return { credentials };
}

/** Size of a VM's disk. */
export const DISK_OPTION: Option = {
  name: "disk",
  value: "SIZE",
  about: "size of the disk, as 40G; sparse on the host",
};

/** Request fields of {@linkcode SIZE_OPTIONS}. */
export function sizeOf(args: Arguments): Pick<CreateRequest, "profile_id" | "cpus" | "ram_mb" | "arch"> {
  return {
    profile_id: args.text("profile"),
    cpus: args.number("cpus", { min: 1, max: CPU_MAX }),
    ram_mb: ramOf(args),
    arch: archOf(args),
  };
}

/** Value of {@linkcode DISK_OPTION}: `40`, `40G` and `40960M` are the same. @returns `GiB` */
export function diskOf(args: Arguments): number | undefined {
  return sizeOption(args, {
    option: "disk",
    step: "g",
    min: 1,
    max: DISK_MAX,
    unitOf: () => "g",
    hint: `give whole GiB as 40, 40G or 40GiB, at most ${DISK_MAX}`,
  });
}

/** Reads all sizes, for a command whose VM is made minutes later. @throws {SbxError} one is wrong */
export function requireSizes(args: Arguments): void {
  sizeOf(args);
  diskOf(args);
}

/**
 * Bounds of a size (docs/design/contracts/02-http.md §2): processors, memory in `MiB`, disk in `GiB`. As
 * {@linkcode CreateRequest} has them, whose module would take half of a command's time to load.
 */
const CPU_MAX = 64, RAM_MIN = 256, RAM_MAX = 256 * 1024, DISK_MAX = 1024;

/** The nearest size that a request may ask for. */
export function sizeWithin<T extends Pick<CreateRequest, "cpus" | "ram_mb" | "disk_gb">>(size: T): T {
  const { cpus, ram_mb, disk_gb } = size;
  return {
    ...size,
    ...cpus !== undefined && { cpus: Math.min(cpus, CPU_MAX) },
    ...ram_mb !== undefined && { ram_mb: Math.min(Math.max(ram_mb, RAM_MIN), RAM_MAX) },
    ...disk_gb !== undefined && { disk_gb: Math.min(disk_gb, DISK_MAX) },
  };
}

/** Value of `--ram`: `4`, `4G` and `4096M` are the same, and `4096`, as in older versions. @returns `MiB` */
function ramOf(args: Arguments): number | undefined {
  return sizeOption(args, {
    option: "ram",
    step: "m",
    min: RAM_MIN,
    max: RAM_MAX,
    unitOf: (value) => value >= RAM_MIN ? "m" : "g",
    hint: `give GiB as 4, 4G or 4GiB, at most ${RAM_MAX / 1024}, or MiB as 512M, at least ${RAM_MIN}`,
  });
}

/** Size of memory for people: `2 GiB`, `1536 MiB`. */
export function formatRam(mib: number): string {
  return mib % 1024 === 0 ? `${mib / 1024} GiB` : `${mib} MiB`;
}

/** Share of a disk from which on people are warned. */
const NEARLY_FULL = 0.9;

/** Space that a VM's disk takes on the host, of its size, for people. */
export function formatDisk({ disk: { size_gb, used_bytes } }: VmSummary): string {
  if (size_gb === 0) return "in memory";
  const used = used_bytes / 1024 ** 3;
  const text = `${used.toFixed(1)} of ${size_gb} GiB`;
  return used < size_gb * NEARLY_FULL ? text : `${text}, nearly full`;
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
  await untilRunning(client, { id, name });
}

/** @throws {SbxError} `vm.boot_failed` */
export async function untilRunning(
  client: Client,
  { id, name }: Pick<VmSummary, "id" | "name">,
): Promise<void> {
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
