/**
 * Questions of policy over the screen of a program that has the terminal: answered
 * there, and the program goes on.
 */
import type { AskView } from "../../../lib/client/api/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { READ_MS } from "../../../lib/policy/ask/mod.ts";

/** Ctrl-^, which few programs use; it goes to the program while no question is shown. */
const ANSWER_KEY = 0x1e;
/**
 * The same key where a program has asked for its keys as sequences: kitty's
 * protocol, and xterm's modifyOtherKeys.
 */
const ANSWER_SEQUENCE =
  // deno-lint-ignore no-control-regex
  /\x1b\[(?:(?:54|94)(?::\d*)*;(?:5|6|69|70|133|134)(?::1)?u|27;[56];(?:54|94)~)/;
const CTRL_C = "\x03", ESCAPE = "\x1b";
const ENTER = /[\r\n]/, ERASE = /[\x7f\b]/;
/** Longest answer, in characters. */
const ANSWER_MAX = 8;

/**
 * Ends all that hides or garbles text, whatever a program has left on: a sequence that is not finished, the
 * mode of a VT52, another character set, inserting, no wrap at the margin, hidden or dim characters.
 */
export const READABLE = "\x18\x1b<\x1b(B\x1b)B\x0f\x1b[4l\x1b[?7h\x1b[m";
/** Text at all places of the screen again: no margins, and no origin in them. */
export const WHOLE_SCREEN = "\x1b[?69l\x1b[?6l\x1b[r";

/** Where the key is in typed bytes; -1: nowhere. */
export function answerKeyAt(bytes: Uint8Array): number {
  const at = bytes.indexOf(ANSWER_KEY);
  return at >= 0 ? at : new TextDecoder("latin1").decode(bytes).search(ANSWER_SEQUENCE);
}

/** The questions that wait, and their answers. */
export interface Questions {
  pending(): AskView[];
  /** the question and its choices, in lines */
  text(ask: AskView): string;
  /** @throws {Error} the answer was not taken */
  answer(ask: AskView, line: string): Promise<void>;
}

interface ScreenOptions {
  questions: Questions;
  write(text: string): void;
  /** no question is left, or the person goes back */
  done(): void;
}

/** One question after the other, typed as a line. */
export class QuestionScreen {
  readonly #options: ScreenOptions;
  #ask?: AskView;
  #line = "";
  #shownAt = 0;

  constructor(options: ScreenOptions) {
    this.#options = options;
  }

  /** Shows the first question; with none the screen is done. */
  show(): void {
    const { questions, write, done } = this.#options;
    const asks = questions.pending();
    [this.#ask] = asks;
    if (!this.#ask) return done();
    const lines = plain(questions.text(this.#ask), true).replaceAll("\n", "\r\n");
    const more = asks.length > 1 ? ` (1 of ${asks.length})` : "";
    write(`sbx${more}: ${lines}\r\n[n], escape = back: `);
    this.#line = "";
    this.#shownAt = performance.now();
  }

  /** Takes typed bytes. */
  async feed(bytes: Uint8Array): Promise<void> {
    const { write, done } = this.#options;
    for (const character of new TextDecoder().decode(bytes)) {
      // While an answer is on its way, a key was meant for it.
      if (!this.#ask) return;
      if (character === CTRL_C || character === ESCAPE || character.charCodeAt(0) === ANSWER_KEY) {
        this.#ask = undefined;
        return done();
      }
      if (ENTER.test(character)) await this.#submit(this.#ask);
      else if (ERASE.test(character) && this.#line !== "") {
        this.#line = this.#line.slice(0, -1);
        write("\b \b");
      } else if (/[a-z]/i.test(character) && this.#line.length < ANSWER_MAX) {
        this.#line += character;
        write(character);
      }
    }
  }

  async #submit(ask: AskView): Promise<void> {
    const { questions, write } = this.#options;
    if (performance.now() - this.#shownAt < READ_MS) {
      write("\r\n  ignored: it was typed before the question could be read\r\n");
      this.#line = "";
      return;
    }
    this.#ask = undefined;
    write("\r\n");
    try {
      await questions.answer(ask, this.#line);
    } catch (error) {
      write(`  not taken: ${plain((error as Error).message)}\r\n`);
    }
    this.show();
  }
}
