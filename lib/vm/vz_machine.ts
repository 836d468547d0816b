import type { LibraryEvent, VmHandle } from "../../ffi/SbxVM/binding.ts";
import { SbxError } from "../base/error/mod.ts";
import { writeAll } from "../base/wire/mod.ts";
import type { Machine, MachineExit, MachineImage, MachineSpec, TakenCopy } from "./hypervisor.ts";
import { TextLineStream } from "./lines.ts";
import { libraryError } from "./vz_error.ts";

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
  #isSaved = false;

  constructor({ handle, events, console, spec }: VzParts) {
    this.#handle = handle;
    this.#spec = spec;
    this.#listeners = [events, console];
    this.#console = console.accept();
    this.#console.then((conn) => relay(conn, spec.onConsole)).catch(() => {});
    this.#events = events.accept();
    this.exited = this.#follow();
  }

  /** Starts it by some calls; where one fails it is over. @throws {SbxError} */
  async begin(calls: (handle: VmHandle) => Promise<void>, fallback: string): Promise<void> {
    try {
      await calls(this.#handle);
      await Promise.all([this.#events, this.#console]);
      this.#closeListeners();
    } catch (error) {
      // Those that nobody connected to would be waited for.
      this.#closeListeners();
      await this.kill();
      throw libraryError(error, fallback, "the machine could not be started");
    }
  }

  /** Processor time is not told by Virtualization.framework, whose machines run in a process of the system. */
  cpuMs(): Promise<number> {
    return Promise.reject(
      new SbxError("vm.not_supported", "this hypervisor does not tell a machine's processor time"),
    );
  }

  pause(): Promise<void> {
    return this.#call((handle) => handle.pause(), "the machine could not be paused");
  }

  resume(): Promise<void> {
    return this.#call((handle) => handle.resume(), "the machine could not go on");
  }

  async snapshot(image: MachineImage, eject?: () => Promise<void>): Promise<void> {
    await eject?.();
    await this.pause();
    this.#isSaved = true;
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

  /** The device of its vsock has stayed: the guest finds it again. */
  async rejoin(): Promise<void> {
    if (!this.#isSaved) return;
    this.#isSaved = false;
    await this.resume();
  }

  async tell(line: string): Promise<void> {
    await writeAll(await this.#console, new TextEncoder().encode(`${line}\n`));
  }

  async kill(): Promise<void> {
    // Freed by its end already, or by this.
    await this.#handle.free().catch(() => {});
    await this.exited;
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
    await this.#handle.free().catch(() => {});
    await this.#console.then((conn) => conn.close()).catch(() => {});
    return { code: last?.code ?? 1, signal: last?.signal ?? null };
  }
}

async function relay(conn: Deno.Conn, onConsole: (bytes: Uint8Array) => void): Promise<void> {
  const buffer = new Uint8Array(16 * 1024);
  for (let count; (count = await conn.read(buffer)) !== null;) onConsole(buffer.slice(0, count));
}
