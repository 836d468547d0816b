import { panicIn } from "../machine/vm/mod.ts";

/** Most `bytes` of a guest's serial console that are kept. */
const CONSOLE_LIMIT = 4 * 1024 * 1024;

const encoder = new TextEncoder();

/** Keeps the start of a guest's output in a file, and marks where it was cut. */
export class ConsoleLog {
  #file: Deno.FsFile;
  #remaining: number;
  /** some of it could not be written */
  #gap = false;

  /** @param limit most `bytes` that are kept */
  constructor(path: string, limit = CONSOLE_LIMIT) {
    this.#remaining = limit;
    this.#file = Deno.openSync(path, { create: true, write: true, truncate: true, mode: 0o600 });
  }

  write(bytes: Uint8Array): void {
    if (this.#remaining <= 0) return;
    try {
      if (this.#gap) this.#write(encoder.encode("\n[sbx: some of this log could not be written here]\n"));
      this.#gap = false;
      this.#write(bytes.subarray(0, this.#remaining));
      this.#remaining -= bytes.length;
      if (this.#remaining <= 0) this.#write(encoder.encode("\n[sbx: this log is cut here]\n"));
    } catch {
      // A full disk must not end the machine; the log continues when there is room again.
      this.#gap = true;
    }
  }

  close(): void {
    this.#remaining = 0;
    this.#file.close();
  }

  #write(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length;) at += this.#file.writeSync(bytes.subarray(at));
  }
}

// The kernel's own last words, on the console of a machine that has ended.

/** Most `bytes` of a console's end that are looked at. */
const TAIL = 64 * 1024;

/** Why the guest's kernel gave up; `undefined` where its console does not say. Never throws. */
export async function panicOf(consolePath: string): Promise<string | undefined> {
  try {
    using file = await Deno.open(consolePath);
    const { size } = await file.stat();
    await file.seek(Math.max(0, size - TAIL), Deno.SeekMode.Start);
    return panicIn(await new Response(file.readable).text());
  } catch {
    return undefined;
  }
}
