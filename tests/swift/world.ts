/** Machines of the library that `make test-swift` builds, without the rest of sbx. */
import { join } from "node:path";
import {
  type LibraryError,
  type LibraryEvent,
  type LibrarySpec,
  type VmHandle,
  VmLibrary,
} from "../../ffi/SbxVM/binding.ts";
import { assert, assertEquals } from "@std/assert";

const path = Deno.env.get("SBX_VM_LIBRARY");
if (!path) throw new Error("SBX_VM_LIBRARY is not set: make test-swift runs these tests");
export const library = new VmLibrary(path);

const images = Deno.env.get("SBX_TEST_IMAGE");
if (!images) throw new Error("SBX_TEST_IMAGE is not set: make test-swift runs these tests");

/** A folder with both sockets of a machine, and what came through them. */
export class World implements AsyncDisposable {
  readonly states: LibraryEvent[] = [];
  /** all events, once their connection is closed */
  readonly ended: Promise<LibraryEvent[]>;
  consoleText = "";
  readonly spec: LibrarySpec;
  readonly #listeners: Deno.UnixListener[];
  readonly #conns: Deno.Conn[] = [];
  readonly #handles: VmHandle[] = [];

  private constructor(readonly dir: string, kernel: string, more: Partial<LibrarySpec>) {
    const [events, console] = ["events", "console"].map((name) => `${dir}/${name}`);
    this.spec = {
      dir,
      cpus: 1,
      memory_mb: 256,
      kernel,
      initrd: join(images!, "initrd.img"),
      command_line: "console=hvc0 panic=-1 norandmaps sbx_hvc=1 sbx_poweroff=1",
      disks: [],
      events,
      console,
      logs: dir,
      ...more,
    };
    this.#listeners = [events, console].map((path) => Deno.listen({ transport: "unix", path }));
    this.ended = this.#readEvents();
    this.#readConsole();
  }

  static async make(more: Partial<LibrarySpec> = {}): Promise<World> {
    return new World(await Deno.makeTempDir({ prefix: "v" }), join(images!, "vmlinuz"), more);
  }

  /** A machine of this world, which ends with it. */
  create(): VmHandle {
    const handle = library.create(this.spec);
    this.#handles.push(handle);
    return handle;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#handles.map((handle) => handle.free()));
    for (const closable of [...this.#listeners, ...this.#conns]) {
      try {
        closable.close();
      } catch {
        // closed by its end
      }
    }
    await Deno.remove(this.dir, { recursive: true });
  }

  async #readEvents(): Promise<LibraryEvent[]> {
    const text = await this.#read(this.#listeners[0], (text) => {
      const lines = text.split("\n").slice(0, -1);
      for (const line of lines.slice(this.states.length)) this.states.push(JSON.parse(line));
    });
    assert(text === "" || text.endsWith("\n"), "the last line is whole");
    return this.states;
  }

  #readConsole(): void {
    this.#read(this.#listeners[1], (text) => this.consoleText = text).catch(() => {});
  }

  async #read(listener: Deno.UnixListener, onText: (all: string) => void): Promise<string> {
    const conn = await listener.accept().catch(() => undefined);
    if (!conn) return "";
    this.#conns.push(conn);
    const decoder = new TextDecoder();
    const buffer = new Uint8Array(4096);
    let all = "";
    for (let count; (count = await conn.read(buffer).catch(() => null)) !== null;) {
      all += decoder.decode(buffer.subarray(0, count), { stream: true });
      onText(all);
    }
    return all;
  }
}

/** Asserts that a call is refused with a code of the library. @returns the message */
export async function refused(call: Promise<unknown> | (() => unknown), code: string): Promise<string> {
  const error = await Promise.resolve(typeof call === "function" ? new Promise((done) => done(call())) : call)
    .then(() => undefined, (error: LibraryError) => error);
  assertEquals(error?.code, code, `${error}`);
  return error!.message;
}

/** Waits for a condition. */
export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 3000; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${what} did not happen`);
}
