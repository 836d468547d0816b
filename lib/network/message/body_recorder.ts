/** Bodies of events (docs/design/contracts/05-policy.md §5): text up to a limit, without secrets. */
import type { HttpBody } from "../../event/mod.ts";
import { CAPTURE_MAX } from "../limit.ts";
import { ByteBuffer } from "./byte_buffer.ts";
import { decodeBody } from "./encoding.ts";
import { isUnambiguous, possibleText, recordedText } from "./text.ts";

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
