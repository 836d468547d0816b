/** The user's terminal, attached to one in a VM. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { Spinner } from "../output.ts";
import { answerKeyAt, type Questions, QuestionScreen, READABLE, WHOLE_SCREEN } from "./question_screen.ts";

/** Ctrl-], which detaches, as in telnet. */
const DETACH = 0x1d;
/** Ctrl-D, the end of the input; repeated, since a program that is still starting loses it. */
const END_OF_INPUT = new Uint8Array([4]);
const END_INTERVAL_MS = 500;

/** The key that detaches, for help. */
export const DETACH_NOTE = "ctrl-] detaches: the program goes on";

/** How an attached terminal ended: the close of its WebSocket. */
export interface Detached {
  code: number;
  reason: string;
}

/**
 * Copies data both ways until the socket closes; restores the terminal on every path.
 *
 * @param what names the terminal in errors
 * @param endsInput the end of the input ends the program's input
 * @param options.doing label of the wait before it opens
 * @param options.banner drawn over the first line
 * @throws {SbxError} `terminal.unavailable`
 */
export async function attach(
  socket: WebSocket,
  what: string,
  endsInput: boolean,
  { doing, banner }: { doing?: string; banner?: Banner } = {},
): Promise<Detached> {
  socket.binaryType = "arraybuffer";
  const closed = Promise.withResolvers<Detached>();
  let terminal: RawTerminal | undefined;
  // A client that sends while the other side closes gets an error for that, and never the reason: so it sends
  // nothing before the first message, which confirms the terminal.
  const opened = Promise.withResolvers<boolean>();
  socket.onclose = ({ code, reason }) => {
    opened.resolve(false);
    closed.resolve({ code, reason });
  };
  const early: Uint8Array<ArrayBuffer>[] = [];
  socket.onmessage = ({ data }) => {
    opened.resolve(true);
    const bytes = new Uint8Array(data);
    if (terminal) terminal.write(bytes);
    else early.push(bytes);
  };
  try {
    if (!(await waitFor(opened.promise, doing))) {
      const end = await closed.promise;
      if (end.reason !== "") return end;
      throw new SbxError("terminal.unavailable", `${what} cannot be opened`, {
        hint: `the VM must be Running; sbx list shows its status`,
      });
    }
    terminal = new RawTerminal(
      (size) => {
        if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
      },
      () => socket.close(1000),
      banner,
    );
    for (const bytes of early) terminal.write(bytes);
    void sendInput(socket, endsInput, terminal).catch(() => socket.close(1000));
    return await closed.promise;
  } finally {
    terminal?.[Symbol.dispose]();
  }
}

async function waitFor(opened: Promise<boolean>, doing?: string): Promise<boolean> {
  using _spinner = doing === undefined ? undefined : new Spinner(doing);
  return await opened;
}

/** Sends the input; at its end ctrl-D, or nothing. */
async function sendInput(socket: WebSocket, endsInput: boolean, terminal: RawTerminal): Promise<void> {
  for await (const bytes of Deno.stdin.readable) {
    if (socket.readyState !== WebSocket.OPEN) return;
    if (terminal.screen) {
      void terminal.screen.feed(bytes);
      continue;
    }
    const key = terminal.mayAnswer ? answerKeyAt(bytes) : -1;
    if (key >= 0) {
      if (key > 0) socket.send(bytes.subarray(0, key));
      terminal.showQuestions();
      continue;
    }
    const end = Deno.stdin.isTerminal() ? bytes.indexOf(DETACH) : -1;
    if (end > 0 || end < 0) socket.send(end < 0 ? bytes : bytes.subarray(0, end));
    if (end < 0) continue;
    await writeAll(Deno.stderr, new TextEncoder().encode("\r\nsbx: detached from the terminal\r\n"));
    return socket.close(1000);
  }
  while (endsInput && socket.readyState === WebSocket.OPEN) {
    socket.send(END_OF_INPUT);
    await new Promise((resolve) => setTimeout(resolve, END_INTERVAL_MS));
  }
}

/** Time for a program to notice its terminal's new size, in `ms`. */
const REDRAW_MS = 100;

/**
 * Modes that a program may leave on when its connection ends, such as the alternate screen or mouse reports.
 */
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

  /** Escape sequences that turn the tracked modes on again. */
  restoreSequence(): string {
    const on = [...this.#on].map((mode) => `\x1b[?${mode}h`).join("");
    return on + (this.#hidden ? `\x1b[?${HIDDEN_CURSOR}l` : "");
  }

  /** Escape sequences that turn the tracked modes off. */
  resetSequence(): string {
    const off = [...this.#on].map((mode) => `\x1b[?${mode}l`).join("");
    return off + (this.#hidden ? `\x1b[?${HIDDEN_CURSOR}h` : "") + (off || this.#hidden ? "\x1b[m" : "");
  }
}

/** Standard input in raw mode, if it is a terminal; disposing restores it, on every path. */
class RawTerminal implements Disposable {
  readonly #modes = new ModeTracker();
  readonly #isRaw = Deno.stdin.isTerminal();
  #banner: Banner | undefined;
  /** the output so far ends inside a sequence */
  #isInside = false;
  readonly #signals: [Deno.Signal, () => void][] = [];
  readonly #onResize: (size: { cols: number; rows: number }) => void;
  /** the questions that have the screen, and the program's output meanwhile */
  screen?: QuestionScreen;
  #kept: Uint8Array[] = [];
  #keptSize = 0;

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
    this.#onResize = onResize;
    if (Deno.stdout.isTerminal()) this.#banner = banner;
    banner?.follow(() => this.#onBanner());
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

  /** True while the key for an answer is not the program's. */
  get mayAnswer(): boolean {
    return this.#isRaw && this.#banner?.isShown === true && this.#banner.questions !== undefined;
  }

  /** Shows the questions in a screen of their own. */
  showQuestions(): void {
    const text = (words: string) => writeWhole(encoder.encode(words));
    this.screen = new QuestionScreen({
      questions: this.#banner!.questions!,
      write: text,
      done: () => this.#closeScreen(),
    });
    const own = `${READABLE}${WHOLE_SCREEN}`;
    text(`${own}${this.#modes.resetSequence()}${SCREEN_ON}${PLAIN_KEYS}${own}\x1b[2J\x1b[1;1H`);
    this.screen.show();
  }

  /** Gives the screen back to the program, which redraws it. */
  #closeScreen(): void {
    if (!this.screen) return;
    this.screen = undefined;
    writeWhole(encoder.encode(`${SCREEN_OFF}${this.#modes.restoreSequence()}`));
    const kept = joinBytes(this.#kept.splice(0)).slice(-KEPT_MAX);
    this.#keptSize = 0;
    if (kept.length > 0) this.write(kept);
    this.#redraw();
  }

  write(bytes: Uint8Array): void {
    if (this.screen) return this.#keep(bytes);
    this.#modes.track(bytes);
    writeWhole(bytes);
    this.#isInside = endsInside(bytes);
    if (this.#banner?.isShown) this.#draw();
  }

  /** Keeps output for after the questions; of more than the limit the newest. */
  #keep(bytes: Uint8Array): void {
    this.#kept.push(bytes);
    this.#keptSize += bytes.length;
    if (this.#keptSize <= 2 * KEPT_MAX && this.#kept.length <= KEPT_PARTS_MAX) return;
    const newest = joinBytes(this.#kept).slice(-KEPT_MAX);
    this.#kept = [newest];
    this.#keptSize = newest.length;
  }

  /** Draws the banner, or clears its line and has the program redraw it. */
  #onBanner(): void {
    if (this.screen) return;
    this.#draw();
    if (this.#banner && !this.#banner.isShown) this.#redraw();
  }

  /** Has the program redraw its screen, as after a change of size. */
  #redraw(): void {
    const { columns: cols, rows } = Deno.consoleSize();
    if (cols === 0 || rows < 2) return;
    this.#onResize({ cols, rows: rows - 1 });
    setTimeout(() => this.#onResize({ cols, rows }), REDRAW_MS);
  }

  /** Draws the banner, or delays it while the program's output is inside a sequence. */
  #draw(): void {
    if (this.#banner && !this.#isInside && !this.screen) {
      writeWhole(this.#banner.sequence(Deno.consoleSize().columns));
    }
  }

  [Symbol.dispose](): void {
    for (const [signal, handler] of this.#signals) Deno.removeSignalListener(signal, handler);
    if (this.screen) writeWhole(encoder.encode(SCREEN_OFF));
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

const encoder = new TextEncoder();
/** Into the alternate screen, and back. */
const SCREEN_ON = "\x1b[?1049h", SCREEN_OFF = "\x1b[<u\x1b[?1049l";
/** Keys as they are on every terminal, until the screen is left. */
const PLAIN_KEYS = "\x1b[>0u";
/** Most `bytes` of output that are kept while questions have the screen. */
const KEPT_MAX = 1024 * 1024;
/** Most pieces of it before they are joined: a program may write one byte at a time. */
const KEPT_PARTS_MAX = 4096;
/** Save and restore the cursor; go to the first line. */
const SAVE = "\x1b7\x1b[1;1H", RESTORE = "\x1b8";
const INVERSE = "\x1b[7m", PLAIN = "\x1b[m", CLEAR_LINE = "\x1b[2K";
/** Last `bytes` of output that may be the beginning of a sequence; longer ones are titles and pictures. */
const SEQUENCE_MAX = 256;

/** A line over the first line of a program's screen, which stays while the program draws. */
export class Banner {
  #text: string | undefined;
  #onChange: () => void = () => {};
  /** absent: they are answered in another terminal */
  questions?: Questions;

  /** @param onChange called when the banner has changed */
  follow(onChange: () => void): void {
    this.#onChange = onChange;
  }

  get isShown(): boolean {
    return this.#text !== undefined;
  }

  /** Shows a text; undefined shows nothing. */
  set(text: string | undefined): void {
    if (this.#text === text) return;
    this.#text = text;
    this.#onChange();
  }

  /** Bytes that draw it, or clear its line. */
  sequence(columns: number): Uint8Array<ArrayBuffer> {
    if (this.#text === undefined) return encoder.encode(`${SAVE}${PLAIN}${CLEAR_LINE}${RESTORE}`);
    // Characters two columns wide would break the line.
    const text = this.#text.replaceAll(/[^\x20-\x7e]/gu, "?");
    const cut = text.length > columns ? `${text.slice(0, Math.max(0, columns - 1))}>` : text;
    return encoder.encode(`${SAVE}${INVERSE}${cut.padEnd(columns)}${PLAIN}${RESTORE}`);
  }
}

/** True if output ends inside a control sequence or a character: more text would join it. */
export function endsInside(bytes: Uint8Array): boolean {
  const tail = bytes.subarray(-SEQUENCE_MAX);
  const text = new TextDecoder("latin1").decode(tail);
  const escape = text.lastIndexOf("\x1b");
  if (escape >= 0 && !isWhole(text.slice(escape))) {
    // The end of a string terminated by ESC \.
    return true;
  }
  // The first byte of a multi-byte character encodes its length.
  const lead = tail.findLastIndex((byte) => (byte & 0xc0) !== 0x80);
  const byte = tail[lead] ?? 0;
  const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
  return tail.length - lead < length;
}

/**
 * True if a text that begins with ESC has the whole sequence: CSI, a string up
 * to BEL or ESC \, or a short one.
 */
function isWhole(text: string): boolean {
  // deno-lint-ignore no-control-regex
  return /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07]*\x07|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/.test(text);
}
