/** Encoded request bodies: searched for secrets and refs where that is possible, refused where it is not. */
import { BUFFERED_BODY_MAX } from "../limit.ts";
import { canDecode, decodeBody } from "../message/encoding.ts";
import type { BodyFilter } from "../interface/mod.ts";
import type { BufferedBody } from "./body_buffer.ts";
import { filterBytes } from "./filtered_body.ts";

/** Result of a search; `secret` has the decoded bytes, from which they are still to be removed. */
export type EncodedSearch =
  | { found: "nothing" | "too long"; plain?: undefined }
  | { found: "secret"; plain: Uint8Array };

/** Refusal of a body that is not held whole. */
export const TOO_LONG = {
  id: "guard-body",
  reason:
    "an encoded body cannot be searched for credentials when it has more than 8 MiB, or its VM holds 128 MiB",
  remedy: "send it without Content-Encoding, or in smaller requests",
};

/**
 * Decodes an encoded body and searches it. A body that no server can decode either is `nothing`.
 *
 * @param filter a filter for this search alone
 */
export async function searchEncoded(
  { first, complete }: BufferedBody,
  encoding: string,
  filter: BodyFilter | undefined,
): Promise<EncodedSearch> {
  if (!filter || first.length === 0 && complete || !canDecode(encoding)) return { found: "nothing" };
  if (!complete) return { found: "too long" };
  const decoded = await decodeBody(first, encoding, BUFFERED_BODY_MAX);
  if (!decoded) return { found: "nothing" };
  if (decoded.cut) return { found: "too long" };
  filterBytes(decoded.bytes, filter);
  return filter.substitutions.length > 0 ? { found: "secret", plain: decoded.bytes } : { found: "nothing" };
}
