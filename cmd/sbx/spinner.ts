const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 80;
const CLEAR_LINE = "\r\x1b[K";

/** Spinner on stderr; does nothing if stderr is not a terminal. */
export class Spinner implements Disposable {
  readonly #timer?: ReturnType<typeof setInterval>;
  #frame = 0;

  constructor(text: string) {
    if (!Deno.stderr.isTerminal()) return;
    this.#timer = setInterval(() => {
      write(`${CLEAR_LINE}${FRAMES[this.#frame++ % FRAMES.length]} ${text}`);
    }, FRAME_MS);
  }

  [Symbol.dispose](): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    write(CLEAR_LINE);
  }
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}
