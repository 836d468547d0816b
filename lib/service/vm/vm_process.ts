/** The process of a VM: calls to it, and the clean-up after its end. */
import { basename, dirname, resolve } from "node:path";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { commandLineOf, findProcesses } from "../../base/process/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import {
  type Call,
  call,
  CallStream,
  type MachineInfo,
  type ReplyTo,
  type SingleKind,
  type StreamKind,
} from "../../session/ipc/mod.ts";
import {
  discardSuspended,
  discardUnfinished,
  isSuspended,
  readHoldSync,
  type SessionPaths,
  writeState,
} from "../../session/mod.ts";
import { kill } from "node:process";
import { log } from "../../base/log/mod.ts";
import { sealAbandoned } from "../../ledger/read/mod.ts";

/** Longest wait for a process of another version of sbx to stop its VM in order, in `ms`. */
const STOP_DEADLINE_MS = timeLimit(30_000);

/** True if an error says that a VM's process runs, but speaks another version's messages. */
export function isForeign(error: unknown): boolean {
  return error instanceof SbxError && error.code === "process.hello_mismatch";
}

/**
 * Stops the VM of a process of another version of sbx, which takes no calls of this
 * one: by SIGTERM, as at a shutdown.
 *
 * @throws {SbxError} `process.hello_mismatch`: it keeps running
 */
export async function stopForeign(id: string): Promise<void> {
  const isOfVm = (words: string[]) =>
    words.at(-1) === id && words.some((word) => word === "process" || basename(word) === "sbx-process");
  const [pid] = await findProcesses(isOfVm);
  if (pid === undefined) return;
  Deno.kill(pid, "SIGTERM");
  for (const deadline = performance.now() + STOP_DEADLINE_MS; performance.now() < deadline;) {
    if (!isOfVm(await commandLineOf(pid) ?? [])) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new SbxError(
    "process.hello_mismatch",
    `the VM's process (pid ${pid}), of another version of sbx, goes on`,
    {
      hint: `kill -9 ${pid} ends it at once`,
    },
  );
}

/** The process of one VM, reached by its socket; a call fails while the process does not run. */
export class VmProcess {
  readonly #socket: string;

  /** @param socket path of the process's UDS */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /**
   * Sends a call that has a single reply.
   *
   * @param signal gives up
   * @throws {SbxError} `process.gone`, or the error that the process replies with
   */
  call<T extends SingleKind>(request: Call & { t: T }, signal?: AbortSignal): Promise<ReplyTo<T>> {
    return call<T>(this.#socket, request, signal);
  }

  /** Sends a call whose replies are a stream. @throws {SbxError} `process.gone` */
  open<T extends StreamKind>(request: Call & { t: T }): Promise<CallStream<T>> {
    return CallStream.open<T>(this.#socket, request);
  }
}

/**
 * Cleans up after a VM's process has ended: removes its sockets and seals its ledger.
 *
 * @param last state that the process reported
 * @returns the new state: Defunct if the process did not report its end; with a hold that it left
 */
export async function settle(paths: SessionPaths, reported: MachineInfo): Promise<MachineInfo> {
  const { response: _, ...last }: MachineInfo = reported;
  // The file, which a process that was killed has written before its report.
  const response = readHoldSync(paths.response, {});
  return await settled(paths, { ...last, ...(response && { response }) });
}

async function settled(paths: SessionPaths, last: MachineInfo): Promise<MachineInfo> {
  await Deno.remove(paths.socket).catch(ignore("the next process replaces it"));
  await Deno.remove(paths.sockets, { recursive: true }).catch(ignore("the next process replaces them"));
  await discardUnfinished(paths);
  await sealRecord(paths, last.pid);
  const hasMemory = await isSuspended(paths);
  // Memory older than its disk is useless.
  if (!hasMemory) await discardSuspended(paths);
  const isOver = last.state === "Stopped" || last.state === "Defunct";
  if (isOver || last.state === "Suspended" && hasMemory) return last;
  if (hasMemory) {
    // It ended between the last byte of its memory and its report, or before its guest had answered again.
    const state = { ...last, state: "Suspended" as const };
    await writeState(paths, state).catch(ignore("disk full; the service keeps the state in memory"));
    return state;
  }
  const state = {
    ...last,
    state: "Defunct" as const,
    last_error: last.state === "Suspended"
      ? "it ended while it resumed, and its disk has changed since its memory was written"
      : `its process (pid ${last.pid}) exited without reporting a reason`,
  };
  await writeState(paths, state).catch(ignore("disk full; the service keeps the state in memory"));
  return state;
}

/**
 * Seals the ledger of a session whose process ended without closing it, so that its end can be verified. A
 * failure is logged, and `sbx verify` reports the missing seal.
 *
 * @param pid of the session's process; nothing is sealed while it runs, for a ledger has one writer
 */
async function sealRecord({ dir, ledger }: Pick<SessionPaths, "dir" | "ledger">, pid: number) {
  const id = basename(dir);
  if (await isProcessOf(id, pid)) return;
  // Below the home: ledgers/<id>/session.db.
  const home = { dir: resolve(dirname(ledger), "../..") };
  const sign = async (text: string) =>
    await (await import("../../release/signing/mod.ts")).signSeal(home, text);
  try {
    // Up to 50 ms of rows may never have been written; the mark shows it to a collector of the record.
    if (await sealAbandoned(ledger, id, sign)) await Deno.writeTextFile(`${ledger}.unflushed`, "");
  } catch (error) {
    log.warn(asSbxError(error, `sealing ${ledger}`).message);
  }
}

/** Checks that a process is still the session's, and not another one with the same number. */
async function isProcessOf(id: string, pid: number): Promise<boolean> {
  if (pid <= 0) return false;
  try {
    kill(pid, 0);
  } catch (error) {
    if ((error as { code?: string }).code === "ESRCH") return false;
  }
  // A system that does not show command lines: assume that it is, which leaves the ledger unsealed.
  const words = await commandLineOf(pid);
  return words === undefined || words.includes(id);
}
