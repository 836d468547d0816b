/**
 * Id and digest of an ask: an answer names them, and so goes to the ask that its person read
 * (docs/design/contracts/05-policy.md §5, "Asks").
 */
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Ask } from "./schema.ts";

/**
 * Characters of the digest in an ask's id: ids of events count up, so a typing error would name another ask.
 */
const DIGEST_IN_ID = 8;

/** Parts of an ask that a person reads; the others change while it waits. */
type AskContent = Omit<Ask, "ask_id" | "digest" | "expires_at" | "status">;

/**
 * BLAKE3 of the event shown to a person in an ask: equal for a request that is sent again unchanged.
 *
 * @param shown the event with refs in place of secrets
 */
export function contentOf({ common, schema_version: _, ...families }: Event): string {
  return blake3(canonicalJson({ event_type: common.event_type, ...families }));
}

/**
 * True where equal content means an equal event: the event holds its body whole, and as text. Of a push,
 * the objects' names are as good.
 */
export function isWhole({ http, model }: Event): boolean {
  const bodies = [http?.request.git?.updates ? undefined : http?.request.body, model?.request.body];
  return bodies.every((body) =>
    !body || body.state === "missing" || body.state === "text" && !body.truncated
  );
}

/** The id and the digest of an ask about an event of this content. */
export function identityOf(ask: AskContent, content: string): Pick<Ask, "ask_id" | "digest"> {
  const digest = blake3(canonicalJson({ ...ask, content }));
  return { ask_id: `ask-${ask.event_id}-${digest.slice(0, DIGEST_IN_ID)}`, digest };
}

/** @throws {SbxError} `ask.changed`: the answer was given to another ask */
export function requireShown({ ask_id, digest }: Ask, shown: string | undefined): void {
  if (shown === undefined || shown === digest) return;
  throw new SbxError("ask.changed", `the answer to ${ask_id} was given to an ask of another digest`, {
    hint: "sbx asks lists it as it is: read it, and answer again",
  });
}
