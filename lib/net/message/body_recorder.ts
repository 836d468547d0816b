/** Bodies of events (docs/contracts.md §5): text up to a limit, without secrets. */
import type { HttpBody } from "../../event/mod.ts";
import { CAPTURE_MAX } from "../limit.ts";
import { ByteBuffer } from "./byte_buffer.ts";
import { decodeBody } from "./encoding.ts";

/** Facts about a body that its record depends on. */
export interface BodyKind {
  content_type?: string;
  content_encoding?: string;
  /** removes secrets */
  scrub(text: string): string;
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
  const shape = { size, ...(content_type !== undefined && { content_type }) };
  const beginning = bytes.length > CAPTURE_MAX ? bytes.subarray(0, CAPTURE_MAX) : bytes;
  const truncated = !complete || beginning.length < size;
  if (beginning.length === 0) return { state: "missing", ...shape, truncated };
  if (content_encoding === undefined || content_encoding === "identity") {
    return recordText(beginning, truncated, shape, kind);
  }
  const plain = await decodeBody(beginning, content_encoding, CAPTURE_MAX + 1);
  if (plain === undefined) return { state: "binary", ...shape, truncated };
  const isCut = plain.length > CAPTURE_MAX;
  return recordText(isCut ? plain.subarray(0, CAPTURE_MAX) : plain, truncated || isCut, shape, kind);
}

const TEXT_TYPE =
  /^(text\/|application\/([\w.+-]*(json|xml|yaml|javascript|graphql|x-ndjson|x-www-form-urlencoded|toml)|x-git))/i;
const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder("utf-8");

function recordText(
  bytes: Uint8Array,
  truncated: boolean,
  shape: Pick<HttpBody, "size" | "content_type">,
  { content_type, scrub }: BodyKind,
): HttpBody {
  const text = decodeText(bytes, content_type, truncated);
  if (text === undefined) return { state: "binary", ...shape, truncated };
  try {
    return { state: "text", text: scrub(text), ...shape, truncated };
  } catch {
    return { state: "redacted", ...shape, truncated, redaction_reason: "the broker could not scrub it" };
  }
}

/** Decodes bytes with a text type, and bytes that are UTF-8 without NUL. */
function decodeText(bytes: Uint8Array, type: string | undefined, truncated: boolean): string | undefined {
  if (type !== undefined && TEXT_TYPE.test(type)) return lenient.decode(bytes);
  if (bytes.includes(0)) return undefined;
  try {
    // A cut may go through a character.
    return truncated ? strict.decode(bytes, { stream: true }) : strict.decode(bytes);
  } catch {
    return undefined;
  } finally {
    if (truncated) resetDecoder();
  }
}

/** After `stream: true`, the decoder would begin the next text with the rest of this one. */
function resetDecoder(): void {
  try {
    strict.decode();
  } catch {
    // the half character at the cut
  }
}
