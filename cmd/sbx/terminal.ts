/** This side of `sbx shell`: the user's own terminal in raw mode, put back on every path. */

/** Modes that a program may leave on when its terminal ends under it, such as the alternate screen or mouse reports. */
const RESTORED = ["1000", "1002", "1003", "1006", "1049", "2004"];
const HIDDEN_CURSOR = "25";
/** Bytes of an escape sequence that the end of a chunk may cut. */
const TAIL = 16;

/** Follows the modes that the output turns on, so that only those are turned off again. */
export class ModeTracker {
  readonly #on = new Set<string>();
  #hidden = false;
  #tail = "";

  /** Looks at what is about to be written to the terminal. */
  see(bytes: Uint8Array): void {
    const text = this.#tail + new TextDecoder("latin1").decode(bytes);
    // deno-lint-ignore no-control-regex
    for (const [, modes, set] of text.matchAll(/\x1b\[\?([\d;]+)([hl])/g)) {
      for (const mode of modes.split(";")) {
        if (mode === HIDDEN_CURSOR) this.#hidden = set === "l";
        if (RESTORED.includes(mode)) set === "h" ? this.#on.add(mode) : this.#on.delete(mode);
      }
    }
    const escape = text.lastIndexOf("\x1b", text.length);
    this.#tail = escape >= text.length - TAIL && !/[hl]/.test(text.slice(escape)) ? text.slice(escape) : "";
  }

  /** What turns them off. */
  restore(): string {
    const off = [...this.#on].map((mode) => `\x1b[?${mode}l`).join("");
    return off + (this.#hidden ? `\x1b[?${HIDDEN_CURSOR}h` : "") + (off || this.#hidden ? "\x1b[m" : "");
  }
}

/** The terminal in raw mode, where it is one; disposing of it puts it back. */
export class RawTerminal implements Disposable {
  readonly #modes = new ModeTracker();
  readonly #raw = Deno.stdin.isTerminal();
  readonly #signals: [Deno.Signal, () => void][] = [];

  /** @param resized called with the size, now and whenever it changes; @param ended called when this program is told to end */
  constructor(resized: (size: { cols: number; rows: number }) => void, ended: () => void) {
    if (this.#raw) Deno.stdin.setRaw(true);
    if (Deno.stdout.isTerminal()) {
      const tell = () => {
        const { columns, rows } = Deno.consoleSize();
        // A terminal that nobody gave a size says 0, and the guest's own default is better than that.
        if (columns > 0 && rows > 0) resized({ cols: columns, rows });
      };
      this.#on("SIGWINCH", tell);
      tell();
    }
    for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) this.#on(signal, ended);
  }

  write(bytes: Uint8Array): void {
    this.#modes.see(bytes);
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  }

  [Symbol.dispose](): void {
    for (const [signal, handler] of this.#signals) Deno.removeSignalListener(signal, handler);
    if (!this.#raw) return;
    Deno.stdin.setRaw(false);
    Deno.stdout.writeSync(new TextEncoder().encode(this.#modes.restore()));
  }

  #on(signal: Deno.Signal, handler: () => void): void {
    Deno.addSignalListener(signal, handler);
    this.#signals.push([signal, handler]);
  }
}
