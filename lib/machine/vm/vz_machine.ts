/** A machine under Apple's Virtualization framework, driven through `ffi/SbxVM`. */
import { LibraryError, type LibraryEvent, type VmHandle } from "../../../ffi/SbxVM/binding.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { COME_BACK, VSOCK_LEFT } from "./schema.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { Machine, MachineExit, MachineImage, MachineSpec, TakenCopy } from "./hypervisor.ts";
import { TextLineStream } from "./qmp.ts";

/** Longest wait for a guest to release its vsock, in `ms`. */
const LEAVE_MS = timeLimit(10_000);

/** A handle of the library, and listeners for the two sockets that it connects to. */
interface VzParts {
  handle: VmHandle;
  events: Deno.UnixListener;
  console: Deno.UnixListener;
  spec: MachineSpec;
}

/** One machine of the library. */
export class VzMachine implements Machine {
  readonly exited: Promise<MachineExit>;
  readonly #handle: VmHandle;
  readonly #spec: MachineSpec;
  readonly #listeners: Deno.UnixListener[];
  readonly #events: Promise<Deno.UnixConn>;
  readonly #console: Promise<Deno.UnixConn>;
  /** called when the guest has released its vsock */
  #onLeft: (() => void) | undefined;
  /** the guest was asked to release its vsock, and has not been asked to use it again */
  #isAway = false;
  #isPaused = false;

  constructor({ handle, events, console, spec }: VzParts) {
    this.#handle = handle;
    this.#spec = spec;
    this.#listeners = [events, console];
    this.#console = console.accept();
    this.#console.then((conn) => this.#relay(conn)).catch(ignore("the console ends with its machine"));
    this.#events = events.accept();
    this.exited = this.#follow();
  }

  limit(): Promise<void> {
    return Promise.reject(new SbxError("vm.not_supported", "this hypervisor limits no machine"));
  }

  /**
   * Starts it by some calls; where one fails it is over.
   *
   * @param code of the failure, also where the machine ended during a call
   * @throws {SbxError}
   */
  async begin(
    calls: (handle: VmHandle) => Promise<void>,
    code: string,
    what = "the machine could not be started",
  ): Promise<void> {
    try {
      await calls(this.#handle);
      await Promise.all([this.#events, this.#console]);
      this.#closeListeners();
    } catch (error) {
      // Listeners without a connection would be waited for.
      this.#closeListeners();
      await this.kill();
      const hasEnded = error instanceof LibraryError && error.code === "machine.ended";
      throw libraryError(hasEnded ? new LibraryError("hypervisor.failed", error.message) : error, code, what);
    }
  }

  /** Virtualization.framework does not report processor time; its machines run in a process of the system. */
  cpuMs(): Promise<number> {
    return Promise.reject(
      new SbxError("vm.not_supported", "this hypervisor does not report a machine's processor time"),
    );
  }

  async pause(): Promise<void> {
    await this.#call((handle) => handle.pause(), "the machine could not be paused");
    this.#isPaused = true;
  }

  async resume(): Promise<void> {
    await this.#call((handle) => handle.resume(), "the machine could not go on");
    this.#isPaused = false;
  }

  /** A restored machine continues: its guest, which had released its vsock, connects again. */
  async comeBack(): Promise<void> {
    this.#isAway = this.#isPaused = true;
    await this.rejoin();
  }

  async snapshot(image: MachineImage, eject?: () => Promise<void>): Promise<void> {
    if (eject) await this.#leave(eject);
    await this.pause();
    await this.#call((handle) => handle.save(image.dir), "the machine could not be written down");
  }

  copy(): Promise<TakenCopy> {
    return Promise.reject(
      new SbxError("vm.not_supported", "this hypervisor cannot copy a machine that runs"),
    );
  }

  // deno-lint-ignore require-await -- errors must reject, not throw
  async imageBytes(): Promise<number> {
    return this.#spec.ramMb * 1024 * 1024;
  }

  /** The device of its vsock has stayed: the guest is notified that it may use it again. */
  async rejoin(): Promise<void> {
    if (this.#isPaused) await this.resume();
    if (this.#isAway) await this.tell(COME_BACK);
    this.#isAway = false;
  }

  async tell(line: string): Promise<void> {
    await writeAll(await this.#console, new TextEncoder().encode(`${line}\n`));
  }

  async kill(): Promise<void> {
    await this.#handle.free().catch(ignore("its end has freed it"));
    await this.exited;
  }

  /** Waits until the guest says that nothing uses its vsock: the framework saves no connections. */
  async #leave(eject: () => Promise<void>): Promise<void> {
    const { promise: left, resolve } = Promise.withResolvers<void>();
    this.#onLeft = resolve;
    this.#isAway = true;
    await eject();
    const late = () => new SbxError("guest.failed", "the guest did not let go of its vsock");
    await Promise.race([left, rejectAfter(LEAVE_MS, late)]);
  }

  async #relay(conn: Deno.Conn): Promise<void> {
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(16 * 1024);
    // The end of what came before may be the beginning of the line.
    let end = "";
    for (let count; (count = await conn.read(buffer)) !== null;) {
      const bytes = buffer.slice(0, count);
      this.#spec.onConsole(bytes);
      const text = end + decoder.decode(bytes, { stream: true });
      if (text.includes(VSOCK_LEFT)) this.#onLeft?.();
      end = text.slice(-VSOCK_LEFT.length);
    }
  }

  #closeListeners(): void {
    for (const listener of this.#listeners) listener.close();
  }

  async #call(call: (handle: VmHandle) => Promise<void>, what: string): Promise<void> {
    try {
      await call(this.#handle);
    } catch (error) {
      throw libraryError(error, "process.gone", what);
    }
  }

  /** Reads events until the library closes their connection, which it does after the last one. */
  async #follow(): Promise<MachineExit> {
    let last: LibraryEvent | undefined;
    try {
      const events = (await this.#events).readable.pipeThrough(new TextDecoderStream());
      for await (const line of events.pipeThrough(new TextLineStream())) last = JSON.parse(line);
    } catch {
      // It never started, or the library broke off: the machine has ended either way.
    }
    await this.#handle.free().catch(ignore("its end has freed it"));
    await this.#console.then((conn) => conn.close()).catch(
      ignore("the machine ended before its console was connected"),
    );
    return { code: last?.code ?? 1, signal: last?.signal ?? null };
  }
}

/** Our codes for the library's (ffi/SbxVM/Sources/SbxVM/Failure.swift); its others depend on the call. */
const CODES: Record<string, string> = {
  "handle.invalid": "process.gone",
  "machine.ended": "process.gone",
  "feature.missing": "vm.not_supported",
  "image.invalid": "vm.image_failed",
};

/**
 * An error of the library as ours.
 *
 * @param fallback code of a failure of the hypervisor itself
 * @param what failed
 */
export function libraryError(error: unknown, fallback: string, what: string): SbxError {
  if (error instanceof SbxError) return error;
  if (!(error instanceof LibraryError)) return new SbxError(fallback, what, { cause: error });
  return new SbxError(CODES[error.code] ?? fallback, `${what}: ${error.message}`, { cause: error });
}
