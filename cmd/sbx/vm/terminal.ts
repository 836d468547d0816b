/** Local side of `sbx shell`: the user's terminal in raw mode, restored on every path. */

import { type Banner, endsInside } from "../banner.ts";

/** Time for a program to notice its terminal's new size, in `ms`. */
const REDRAW_MS = 100;

/** Modes that a program may leave on when its connection ends, such as the alternate screen or mouse reports. */
const RESTORED_MODES = ["1000", "1002", "1003", "1006", "1049", "2004"];
const HIDDEN_CURSOR = "25";
/** Most characters of an escape sequence cut by the end of a chunk. */
const TAIL_MAX = 16;

/** Tracks the modes that the output turns on, to turn off only those. */
export class ModeTracker {
  readonly #on = new Set<string>();
  #hidden = false;
  #tail = "";

  /** Tracks modes in a chunk of output. */
  track(bytes: Uint8Array): void {
    const text = this.#tail + new TextDecoder("latin1").decode(bytes);
    // deno-lint-ignore no-control-regex
    for (const [, modes, set] of text.matchAll(/\x1b\[\?([\d;]+)([hl])/g)) {
      for (const mode of modes.split(";")) {
        if (mode === HIDDEN_CURSOR) this.#hidden = set === "l";
        if (RESTORED_MODES.includes(mode)) set === "h" ? this.#on.add(mode) : this.#on.delete(mode);
      }
    }
    const escape = text.lastIndexOf("\x1b", text.length);
    this.#tail = escape >= text.length - TAIL_MAX && !/[hl]/.test(text.slice(escape))
      ? text.slice(escape)
      : "";
  }

  /** Escape sequences that turn the tracked modes off. */
  resetSequence(): string {
    const off = [...this.#on].map((mode) => `\x1b[?${mode}l`).join("");
    return off + (this.#hidden ? `\x1b[?${HIDDEN_CURSOR}h` : "") + (off || this.#hidden ? "\x1b[m" : "");
  }
}

/** Standard input in raw mode, if it is a terminal; disposing restores it. */
export class RawTerminal implements Disposable {
  readonly #modes = new ModeTracker();
  readonly #isRaw = Deno.stdin.isTerminal();
  #banner: Banner | undefined;
  /** the output so far ends inside a sequence */
  #isInside = false;
  readonly #signals: [Deno.Signal, () => void][] = [];

  /**
   * @param onResize receives the size, at once and on every change
   * @param onEnd called on SIGTERM, SIGHUP and SIGINT
   * @param banner drawn over the first line
   */
  constructor(
    onResize: (size: { cols: number; rows: number }) => void,
    onEnd: () => void,
    banner?: Banner,
  ) {
    if (Deno.stdout.isTerminal()) this.#banner = banner;
    banner?.follow(() => this.#onBanner(onResize));
    if (this.#isRaw) Deno.stdin.setRaw(true);
    if (Deno.stdout.isTerminal()) {
      const reportSize = () => {
        const { columns, rows } = Deno.consoleSize();
        // A terminal without a size reports 0; the guest's default is better.
        if (columns > 0 && rows > 0) onResize({ cols: columns, rows });
        if (this.#banner?.isShown) this.#draw();
      };
      this.#on("SIGWINCH", reportSize);
      reportSize();
    }
    for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"] as const) this.#on(signal, onEnd);
  }

  write(bytes: Uint8Array): void {
    this.#modes.track(bytes);
    writeWhole(bytes);
    this.#isInside = endsInside(bytes);
    if (this.#banner?.isShown) this.#draw();
  }

  /** Draws the banner, or clears its line and has the program redraw it, as after a change of size. */
  #onBanner(onResize: (size: { cols: number; rows: number }) => void): void {
    this.#draw();
    if (!this.#banner || this.#banner.isShown) return;
    const { columns: cols, rows } = Deno.consoleSize();
    if (cols === 0 || rows < 2) return;
    onResize({ cols, rows: rows - 1 });
    setTimeout(() => onResize({ cols, rows }), REDRAW_MS);
  }

  /** Draws the banner, or delays it while the program's output is inside a sequence. */
  #draw(): void {
    if (this.#banner && !this.#isInside) writeWhole(this.#banner.sequence(Deno.consoleSize().columns));
  }

  [Symbol.dispose](): void {
    for (const [signal, handler] of this.#signals) Deno.removeSignalListener(signal, handler);
    if (!this.#isRaw) return;
    Deno.stdin.setRaw(false);
    Deno.stdout.writeSync(new TextEncoder().encode(this.#modes.resetSequence()));
  }

  #on(signal: Deno.Signal, handler: () => void): void {
    Deno.addSignalListener(signal, handler);
    this.#signals.push([signal, handler]);
  }
}

function writeWhole(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
}
