/** What an event keeps of a body (contracts.md §5): text to a limit, and never a secret. */
import type { HttpBody } from "../../event/mod.ts";
import { decoded } from "./encoding.ts";
import { Gathered } from "./gathered.ts";
import { CAPTURE_MAX } from "../limit.ts";

/** How a body is to be read. */
export interface BodyKind {
  content_type?: string;
  content_encoding?: string;
  /** takes secrets out */
  scrub(text: string): string;
}

/** Watches a body go by and keeps its beginning. */
export class Capture {
  /** bytes that went by */
  size = 0;
  readonly #kept = new Gathered();

  add(piece: Uint8Array): void {
    this.size += piece.length;
    const room = CAPTURE_MAX - this.#kept.count;
    if (room > 0) this.#kept.add(piece.length > room ? piece.subarray(0, room) : piece);
  }

  /** What went by, for the event. @param complete whether that is all of it */
  record(kind: BodyKind, complete = true): Promise<HttpBody> | HttpBody {
    return recordBody(this.#kept.bytes, this.size, kind, complete);
  }
}

/**
 * The body of an event.
 *
 * @param bytes its beginning, as it was sent
 * @param size all that was sent
 * @param complete whether more is to come
 */
export function recordBody(
  bytes: Uint8Array,
  size: number,
  kind: BodyKind,
  complete = true,
): Promise<HttpBody> | HttpBody {
  const { content_type, content_encoding } = kind;
  const shape = { size, ...(content_type !== undefined && { content_type }) };
  const kept = bytes.length > CAPTURE_MAX ? bytes.subarray(0, CAPTURE_MAX) : bytes;
  const truncated = !complete || kept.length < size;
  if (kept.length === 0) return { state: "missing", ...shape, truncated };
  if (content_encoding === undefined || content_encoding === "identity") {
    return textBody(kept, truncated, shape, kind);
  }
  return decoded(kept, content_encoding, CAPTURE_MAX + 1).then((plain): HttpBody => {
    if (plain === undefined) return { state: "binary", ...shape, truncated };
    const cut = plain.length > CAPTURE_MAX;
    return textBody(cut ? plain.subarray(0, CAPTURE_MAX) : plain, truncated || cut, shape, kind);
  });
}

const TEXT_TYPE =
  /^(text\/|application\/([\w.+-]*(json|xml|yaml|javascript|graphql|x-ndjson|x-www-form-urlencoded|toml)|x-git))/i;
const strict = new TextDecoder("utf-8", { fatal: true });
const lenient = new TextDecoder("utf-8");

function textBody(
  bytes: Uint8Array,
  truncated: boolean,
  shape: Pick<HttpBody, "size" | "content_type">,
  { content_type, scrub }: BodyKind,
): HttpBody {
  const text = textOf(bytes, content_type, truncated);
  if (text === undefined) return { state: "binary", ...shape, truncated };
  try {
    return { state: "text", text: scrub(text), ...shape, truncated };
  } catch {
    return { state: "redacted", ...shape, truncated, redaction_reason: "the broker could not look at it" };
  }
}

/** Whatever says that it is text, and whatever is UTF-8 without NUL. */
function textOf(bytes: Uint8Array, type: string | undefined, truncated: boolean): string | undefined {
  if (type !== undefined && TEXT_TYPE.test(type)) return lenient.decode(bytes);
  if (bytes.includes(0)) return undefined;
  try {
    // A cut may go through a character.
    return truncated ? strict.decode(bytes, { stream: true }) : strict.decode(bytes);
  } catch {
    return undefined;
  } finally {
    if (truncated) reset();
  }
}

/** A decoder that was told of more to come would begin the next text with what is left of this one. */
function reset(): void {
  try {
    strict.decode();
  } catch {
    // the half character that the cut left
  }
}
