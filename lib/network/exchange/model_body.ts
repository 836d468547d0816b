import { BUFFERED_BODY_MAX } from "../limit.ts";
import { decodeBody, encodingOf } from "../message/encoding.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { CapturedHead } from "./request.ts";

/** Body of a request that may be a model call, without encoding. */
export interface ModelBody {
  bytes: Uint8Array;
  /** why these are not all its bytes, as a clause; absent when they are */
  fault?: string;
}

/** Body as a model call's reader reads it. @param rewritten the body as rules rewrote it */
export async function modelBodyOf(
  { headers }: CapturedHead,
  { first, complete }: BufferedBody,
  rewritten: Uint8Array | undefined,
): Promise<ModelBody> {
  if (rewritten) return { bytes: rewritten };
  if (!complete) return { bytes: first, fault: "its body is too long to be held" };
  const encoding = encodingOf(headers);
  if (encoding === undefined) return { bytes: first };
  const decoded = await decodeBody(first, encoding, BUFFERED_BODY_MAX);
  if (!decoded) return { bytes: first, fault: `its content encoding ${encoding} is unknown` };
  if (decoded.whole) return { bytes: decoded.bytes };
  return { bytes: decoded.bytes, fault: "its content encoding is damaged, or its body too long to be held" };
}
