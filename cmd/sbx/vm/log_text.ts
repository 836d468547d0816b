import { plain } from "../../../lib/base/print/mod.ts";

/** Control sequences and strings of ECMA-48, and other escapes. */
const ESCAPES =
  // deno-lint-ignore no-control-regex
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])/g;
/** Longest escape that is cut by the end of a piece, in characters. */
const ESCAPE_MAX = 4096;

/** A job's output for a person's terminal: its text, without anything that moves the cursor or changes the terminal. */
export class LogText {
  readonly #decoder = new TextDecoder();
  #rest = "";

  push(bytes: Uint8Array): string {
    const text = (this.#rest + this.#decoder.decode(bytes, { stream: true })).replace(ESCAPES, "");
    // The rest of an escape, or the line feed after a carriage return, comes with the next piece.
    const escape = text.indexOf("\x1b");
    const isCut = escape >= 0 && text.length - escape <= ESCAPE_MAX;
    const end = isCut ? escape : text.endsWith("\r") ? text.length - 1 : text.length;
    this.#rest = text.slice(end);
    return plain(text.slice(0, end).replaceAll("\r\n", "\n").replaceAll("\r", "\n"), true);
  }
}
