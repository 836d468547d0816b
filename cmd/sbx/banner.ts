/** A line over the first line of a program's screen, which stays while the program draws. */

const encoder = new TextEncoder();
/** Save and restore the cursor; go to the first line. */
const SAVE = "\x1b7\x1b[1;1H", RESTORE = "\x1b8";
const INVERSE = "\x1b[7m", PLAIN = "\x1b[m", CLEAR_LINE = "\x1b[2K";
/** Last `bytes` of output that may be the beginning of a sequence; longer ones are titles and pictures. */
const SEQUENCE_MAX = 256;

export class Banner {
  #text: string | undefined;
  #onChange: () => void = () => {};

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

/** True if a text that begins with ESC has the whole sequence: CSI, a string up to BEL or ESC \, or a short one. */
function isWhole(text: string): boolean {
  // deno-lint-ignore no-control-regex
  return /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07]*\x07|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])/.test(text);
}
