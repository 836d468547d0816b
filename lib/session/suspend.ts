/**
 * A VM whose memory is on disk: written when it is suspended or copied, gone when its guest has answered
 * again.
 */
import { stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { formatBytes } from "../base/progress/mod.ts";
import type { GuestLink, GuestState } from "../machine/guest/mod.ts";
import type { AskQueue } from "../policy/mod.ts";
import { KeptAsk } from "../policy/ask/schema.ts";
import type { Hypervisor, Machine, MachineImage, MachineSpec } from "../machine/vm/mod.ts";
import type { SessionPaths, VmPaths } from "./files/paths.ts";
import { copySparse } from "../base/copy/mod.ts";
import { GO_ON } from "../machine/guest/wire/mod.ts";
import type { LastEvent } from "../ledger/mod.ts";
import type { VmRecord } from "./files/record.ts";

/** State of the link, beside the machine's. */
const LinkState = z.strictObject({
  shell: z.strictObject({ id: z.string(), replay: z.base64() }).optional(),
  /** absent in memory of an older sbx */
  programs: z.array(
    z.strictObject({ id: z.string(), name: z.string(), request: z.string(), event_id: z.string() }),
  ).default([]),
});

/** The machine whose memory was saved; it fits no other. */
const MemoryOrigin = z.strictObject({
  accelerator: z.enum(["kvm", "tcg", "vz"]),
  host: z.strictObject({ hypervisor: z.string(), processor: z.string(), machine: z.string() }),
});
export type MemoryOrigin = z.infer<typeof MemoryOrigin>;

type Place = Pick<SessionPaths, "suspended">;
/** Memory is of use as long as the VM's disk is as it was. */
type PlaceAndDisk = Pick<SessionPaths, "suspended" | "scratch">;

/** Folder with the machine's image. */
export function suspendedImage({ suspended }: Place): MachineImage {
  return { dir: join(suspended, "image") };
}

/** Refuses, before anything stops, if the disk has too little room. @throws {SbxError} `vm.suspend_failed` */
export async function requireRoom(machine: Machine, { suspended }: Place): Promise<void> {
  const [needed, { bavail, bsize }] = await Promise.all([machine.imageBytes(), statfs(dirname(suspended))]);
  const free = bavail * bsize;
  if (free >= needed) return;
  throw new SbxError(
    "vm.suspend_failed",
    `the VM cannot be suspended: its memory takes ${formatBytes(needed)}, and the disk has room for ${
      formatBytes(free)
    }`,
    { hint: "free some space, and try again; it runs on" },
  );
}

/**
 * Writes down a running machine, which is stopped afterwards, and the asks of its requests. The folder
 * appears when everything is in it.
 *
 * @throws {SbxError} `vm.suspend_failed`: the machine has to rejoin its VM
 */
export async function writeDown(
  machine: Machine,
  link: GuestLink,
  { suspended, scratch }: PlaceAndDisk,
  asks: AskQueue,
  origin: MemoryOrigin,
): Promise<void> {
  const work = unfinished(suspended);
  let kept: KeptAsk[] = [];
  try {
    await remove(work);
    const image = suspendedImage({ suspended: work });
    await Deno.mkdir(image.dir, { recursive: true, mode: 0o700 });
    const { state } = link;
    await machine.snapshot(image, () => link.detach());
    await writeBeside({ suspended: work, scratch }, origin, state);
    kept = asks.take();
    await Deno.writeTextFile(asksPath({ suspended: work }), JSON.stringify(kept), { mode: 0o600 });
    await Deno.rename(work, suspended);
  } catch (cause) {
    asks.restore(kept);
    await remove(work);
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SbxError("vm.suspend_failed", `the VM cannot be suspended: ${reason}`, { cause });
  }
}

/** The machine that memory written now is of. */
export async function originOf(
  hypervisor: Pick<Hypervisor, "identity">,
  spec: Pick<MachineSpec, "arch" | "cpus" | "ramMb" | "accelerator">,
): Promise<MemoryOrigin> {
  return { accelerator: spec.accelerator, host: await hypervisor.identity(spec) };
}

/** Writes the files beside a stopped machine's memory: its origin, its disk's state, its guest's programs. */
export async function writeBeside(
  place: PlaceAndDisk,
  origin: MemoryOrigin,
  { shell, programs }: GuestState,
): Promise<void> {
  const link: z.infer<typeof LinkState> = {
    shell: shell && { id: shell.id, replay: shell.replay.toBase64() },
    programs,
  };
  const options = { mode: 0o600 };
  await Promise.all([
    Deno.writeTextFile(linkPath(place), JSON.stringify(link), options),
    Deno.writeTextFile(originPath(place), JSON.stringify(origin), options),
    Deno.writeTextFile(diskPath(place), await diskState(place), options),
  ]);
}

/** The machine that a VM's memory is of. @returns undefined for memory of an earlier sbx */
export async function readOrigin(place: Place): Promise<MemoryOrigin | undefined> {
  const text = await ifFound(Deno.readTextFile(originPath(place)));
  return text === undefined ? undefined : MemoryOrigin.parse(JSON.parse(text));
}

/** The shell and the services that run in a suspended VM. */
export async function readGuest(place: Place): Promise<GuestState> {
  const { shell, programs } = LinkState.parse(JSON.parse(await Deno.readTextFile(linkPath(place))));
  return { ...shell && { shell: { id: shell.id, replay: Uint8Array.fromBase64(shell.replay) } }, programs };
}

/** The asks of a suspended VM; a copy has none. */
export async function readAsks(place: Place): Promise<KeptAsk[]> {
  try {
    return z.array(KeptAsk).parse(JSON.parse(await Deno.readTextFile(asksPath(place))));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** Removes a VM's memory files that a killed process left unfinished or had not removed yet. */
export async function discardUnfinished({ suspended }: Place): Promise<void> {
  await Promise.all([remove(unfinished(suspended)), remove(discarded(suspended))]);
}

/**
 * Removes the memory of a VM. It disappears in one step, so that killing the process
 * meanwhile leaves no incomplete memory.
 */
export async function discard({ suspended }: Place): Promise<void> {
  const old = discarded(suspended);
  await remove(old);
  try {
    await Deno.rename(suspended, old);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  await remove(old);
}

async function remove(path: string): Promise<void> {
  await Deno.remove(path, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/**
 * Whether a VM has memory to resume from. Not if the guest has changed its disk since: that memory belongs to
 * the disk's earlier state.
 */
export async function isSuspended(place: PlaceAndDisk): Promise<boolean> {
  if (!await Deno.lstat(place.suspended).then(() => true, () => false)) return false;
  const written = await Deno.readTextFile(diskPath(place)).catch(() => undefined);
  return written === undefined || written === await diskState(place);
}

/** Changes with every write to a VM's disk; the same for a copy. */
async function diskState({ scratch }: PlaceAndDisk): Promise<string> {
  try {
    const { size, mtimeNs } = await stat(scratch, { bigint: true });
    return `${size} ${mtimeNs}`;
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return "none";
    throw error;
  }
}

function unfinished(suspended: string): string {
  return `${suspended}.new`;
}

function discarded(suspended: string): string {
  return `${suspended}.old`;
}

function asksPath({ suspended }: Place): string {
  return join(suspended, "asks.json");
}

function originPath({ suspended }: Place): string {
  return join(suspended, "machine.json");
}

/** File with the state of the disk that memory belongs to. */
function diskPath({ suspended }: Place): string {
  return join(suspended, "disk");
}

function linkPath({ suspended }: Place): string {
  return join(suspended, "link.json");
}

/** The running VM. */
interface ForkSource {
  machine: Machine;
  link: GuestLink;
  record: Pick<VmRecord, "scratch_gb">;
  paths: Pick<VmPaths, "scratch" | "workspace">;
  /** the machine that its memory is of */
  origin(): Promise<MemoryOrigin>;
  /** the last event of its session */
  lastEvent(): Promise<LastEvent | undefined>;
}

/** A copy whose memory is not on disk yet. */
export interface VmCopy {
  /** time that the source stood still, in `ms` */
  stillMs: number;
  /** the source's last event until then */
  event?: LastEvent;
  /** @throws {SbxError} `vm.fork_failed` */
  write(): Promise<void>;
}

/**
 * Copies a running VM, which then resumes but has to rejoin, also after a failure.
 *
 * @param to an empty folder
 * @throws {SbxError} `vm.fork_failed`
 */
export async function takeCopy(source: ForkSource, to: VmPaths): Promise<VmCopy> {
  const { machine, link, paths, record } = source;
  const hasScratch = record.scratch_gb > 0;
  const image = suspendedImage(to);
  try {
    await Deno.mkdir(to.suspended, { mode: 0o700 });
    await Deno.mkdir(image.dir, { mode: 0o700 });
    // The machine writes its disk out when it is stopped: data already on disk costs no time then.
    if (hasScratch) await syncFile(paths.scratch);
    const origin = await source.origin();
    const { state } = link;
    let event: LastEvent | undefined;
    const { stillMs, write } = await machine.copy(image, () => link.detach(), async () => {
      [event] = await Promise.all([
        source.lastEvent(),
        // Only the source gets it: the copy has its own console.
        machine.tell(GO_ON),
        ...hasScratch ? [copySparse(paths.scratch, to.scratch)] : [],
        copySparse(paths.workspace, to.workspace),
      ]);
    });
    await writeBeside(to, origin, state);
    const writeOrFail = () =>
      write().catch((cause) => {
        throw forkError(cause);
      });
    return { stillMs, event, write: writeOrFail };
  } catch (cause) {
    throw forkError(cause);
  }
}

function forkError(cause: unknown): SbxError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new SbxError("vm.fork_failed", `the VM cannot be copied: ${reason}`, { cause });
}

async function syncFile(path: string): Promise<void> {
  using file = await Deno.open(path);
  await file.syncData();
}
