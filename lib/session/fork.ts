/** A copy of a running VM: machine, disk and workspace of one moment, in the folder of another VM. */
import { copySparse } from "../base/copy/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { GuestLink } from "../machine/guest/mod.ts";
import { GO_ON } from "../machine/guest/wire/mod.ts";
import type { LastEvent } from "../ledger/mod.ts";
import type { Machine } from "../machine/vm/mod.ts";
import type { VmPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import { type MemoryOrigin, suspendedImage, writeBeside } from "./suspend.ts";

/** The running VM. */
export interface ForkSource {
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
    const { shellState } = link;
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
    await writeBeside(to, origin, shellState);
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
