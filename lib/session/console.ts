/** Bytes of a guest's serial console that are kept; the guest can print for ever. */
const CONSOLE_LIMIT = 4 * 1024 * 1024;

/** Keeps the start of a guest's console in a file, and says where it was cut. */
export class ConsoleLog {
  #file: Deno.FsFile;
  #left = CONSOLE_LIMIT;

  constructor(path: string) {
    this.#file = Deno.openSync(path, { create: true, write: true, truncate: true, mode: 0o600 });
  }

  write(bytes: Uint8Array): void {
    if (this.#left <= 0) return;
    try {
      this.#file.writeSync(bytes.subarray(0, this.#left));
      this.#left -= bytes.length;
      if (this.#left <= 0) {
        this.#file.writeSync(new TextEncoder().encode("\n[sbx: the console is cut here]\n"));
      }
    } catch {
      // a full disk must not end the machine because of a log
      this.#left = 0;
    }
  }
}
