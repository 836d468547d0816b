/** Text of bodies: for the record, and for rules, which read every body. */
import { memoize } from "../../base/memo/mod.ts";
import type { HttpBody } from "../../event/mod.ts";
import { CAPTURE_MAX } from "../limit.ts";
import { ByteBuffer } from "./bytes.ts";
import { decodeBody } from "./encoding.ts";

// Bodies of events (docs/design/contracts/05-policy.md §5): text up to a limit, without secrets.

/** Facts about a body that its record depends on. */
export interface BodyKind {
  content_type?: string;
  /** as `encodingOf` returns it */
  content_encoding?: string;
  /** rules read the body: a binary one has text too, which is not recorded */
  forRules?: boolean;
  /** removes secrets. @param isCut more text followed */
  scrub(text: string, isCut?: boolean): string;
}

/** Keeps the beginning of a streaming body for its event. */
export class BodyRecorder {
  /** `bytes` seen */
  size = 0;
  readonly #beginning = new ByteBuffer();

  add(piece: Uint8Array): void {
    this.size += piece.length;
    const room = CAPTURE_MAX - this.#beginning.count;
    if (room > 0) this.#beginning.add(piece.length > room ? piece.subarray(0, room) : piece);
  }

  /** Body for the event. @param complete true when the whole body was seen */
  record(kind: BodyKind, complete = true): Promise<HttpBody> {
    return recordBody(this.#beginning.bytes, this.size, kind, complete);
  }
}

/**
 * Makes the body of an event.
 *
 * @param bytes its beginning, as sent
 * @param size number of bytes sent
 * @param complete false when more bytes follow
 */
export async function recordBody(
  bytes: Uint8Array,
  size: number,
  kind: BodyKind,
  complete = true,
): Promise<HttpBody> {
  const { content_type, content_encoding } = kind;
  // Fields in the order of canonical JSON, which then copies nothing to sort them.
  const shape = { ...(content_type !== undefined && { content_type }), size };
  const isCut = !complete || bytes.length < size;
  if (bytes.length === 0) return { ...shape, state: "missing", truncated: isCut };
  let plain = bytes;
  if (content_encoding !== undefined) {
    const decoded = await decodeBody(bytes, content_encoding, CAPTURE_MAX + 1);
    if (!decoded || isDamaged(decoded, isCut)) return { ...shape, state: "binary", truncated: isCut };
    plain = decoded.bytes;
  }
  const isLong = plain.length > CAPTURE_MAX;
  return recordText(isLong ? plain.subarray(0, CAPTURE_MAX) : plain, isCut || isLong, shape, kind);
}

/**
 * True for a body that rules cannot read: its encoding cannot be undone, or its charset is unknown.
 *
 * @param body made with `forRules`
 */
export function isUnreadable({ state, text }: HttpBody): boolean {
  return state === "binary" && text === undefined;
}

/** True for a body that ends before its end, unless it was cut or is longer than an event holds. */
function isDamaged({ bytes, whole }: { bytes: Uint8Array; whole: boolean }, isCut: boolean): boolean {
  if (whole || bytes.length > CAPTURE_MAX) return false;
  return !isCut || bytes.length === 0;
}

function recordText(
  bytes: Uint8Array,
  truncated: boolean,
  shape: Pick<HttpBody, "size" | "content_type">,
  { content_type, forRules, scrub }: BodyKind,
): HttpBody {
  const recorded = recordedText(bytes, content_type, truncated);
  const isAnyReading = forRules && !(recorded !== undefined && isUnambiguous(bytes, content_type));
  const text = isAnyReading ? possibleText(bytes, content_type) : recorded;
  const state = recorded === undefined ? "binary" : "text";
  if (text === undefined) return { ...shape, state, truncated };
  try {
    return { ...shape, state, text: scrub(text, truncated), truncated };
  } catch {
    return { ...shape, state: "redacted", truncated, redaction_reason: "the broker could not scrub it" };
  }
}

const TEXT_TYPE =
  /^(text\/|application\/([\w.+-]*(json|xml|yaml|javascript|graphql|x-ndjson|x-www-form-urlencoded|toml)|x-git))/i;
/** Charsets of one byte a character, in which ASCII is ASCII. */
const SINGLE_BYTE = /^(iso-8859-|windows-|koi8-|ibm866$|macintosh$|x-mac-)/;
/** Decoder of a charset; making one takes longer than decoding a short body. */
const decoderOf = memoize((charset) => new TextDecoder(charset));
const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder("utf-8");

/**
 * Text of bytes with a text type in their declared charset, and of bytes that are UTF-8 without
 * NUL; `undefined` for other bytes.
 */
function recordedText(
  bytes: Uint8Array,
  type: string | undefined,
  truncated: boolean,
): string | undefined {
  const charset = charsetOf(type ?? "");
  if (charset === undefined) return undefined;
  if (type !== undefined && TEXT_TYPE.test(type)) {
    return decoderOf(utf16Of(bytes) ?? charset).decode(bytes);
  }
  if (charset !== "utf-8" || bytes.includes(0)) return undefined;
  try {
    // A cut may go through a character.
    return truncated ? strict.decode(bytes, { stream: true }) : strict.decode(bytes);
  } catch {
    return undefined;
  } finally {
    if (truncated) resetDecoder();
  }
}

/** True when every receiver reads the same text in bytes that have a {@linkcode recordedText}. */
export function isUnambiguous(bytes: Uint8Array, type: string | undefined): boolean {
  const charset = charsetOf(type ?? "");
  return charset !== undefined && (charset === "utf-8" || SINGLE_BYTE.test(charset)) &&
    utf16Of(bytes) === undefined && !bytes.includes(0);
}

/**
 * Every text that a receiver may read, one after the other: as UTF-8 with invalid bytes replaced, in the
 * charset that is declared or marked, and without the NUL bytes of UTF-16 and UTF-32.
 *
 * @returns `undefined` for an unknown charset, such as UTF-7, whose text is unknown
 */
export function possibleText(bytes: Uint8Array, type: string | undefined): string | undefined {
  const charset = charsetOf(type ?? "");
  if (charset === undefined) return undefined;
  const utf8 = lenient.decode(bytes);
  const texts = new Set([utf8]);
  if (charset !== "utf-8") texts.add(decoderOf(charset).decode(bytes));
  const utf16 = utf16Of(bytes);
  if (utf16 !== undefined) texts.add(decoderOf(utf16).decode(bytes));
  // Decoding again would take as long as the first time, milliseconds for random bytes.
  texts.add(utf8.replaceAll("\0", ""));
  return [...texts].join("\n");
}

/**
 * Declared charset of a content type by its canonical name, `utf-8` by default;
 * `undefined` for an unknown one.
 */
export const charsetOf = memoize((type: string): string | undefined => {
  const labels = type.matchAll(/;\s*charset\s*=\s*"?([^\s";,]*)/gi).map(([, label]) => label.toLowerCase());
  const names = new Set(labels.map(encodingName));
  if (names.size > 1) return undefined;
  return names.size === 0 ? "utf-8" : [...names][0];
});

function encodingName(label: string): string | undefined {
  if (label === "" || label === "us-ascii") return "utf-8";
  try {
    const { encoding } = new TextDecoder(label);
    return encoding === "replacement" ? undefined : encoding;
  } catch {
    return undefined;
  }
}

/** The UTF-16 variant that a byte order mark indicates. */
function utf16Of({ 0: first, 1: second }: Uint8Array): string | undefined {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  if (first === 0xfe && second === 0xff) return "utf-16be";
}

/** After `stream: true`, the decoder would begin the next text with the rest of this one. */
function resetDecoder(): void {
  try {
    strict.decode();
  } catch {
    // the half character at the cut
  }
}
