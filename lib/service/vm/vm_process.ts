import { basename } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { commandLineOf, findProcesses } from "../../base/process/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import {
  type Call,
  call,
  CallStream,
  type ReplyTo,
  type SingleKind,
  type StreamKind,
} from "../../session/ipc/mod.ts";

/** Longest wait for a process of another version of sbx to stop its VM in order, in `ms`. */
const STOP_DEADLINE_MS = timeLimit(30_000);

/** True if an error says that a VM's process runs, but speaks another version's messages. */
export function isForeign(error: unknown): boolean {
  return error instanceof SbxError && error.code === "process.hello_mismatch";
}

/**
 * Stops the VM of a process of another version of sbx, which takes no calls of this one: by SIGTERM, as at a shutdown.
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

  /** Sends a call that has a single reply. @throws {SbxError} `process.gone`, or the error that the process replies with */
  call<T extends SingleKind>(request: Call & { t: T }): Promise<ReplyTo<T>> {
    return call<T>(this.#socket, request);
  }

  /** Sends a call whose replies are a stream. @throws {SbxError} `process.gone` */
  open<T extends StreamKind>(request: Call & { t: T }): Promise<CallStream<T>> {
    return CallStream.open<T>(this.#socket, request);
  }
}
