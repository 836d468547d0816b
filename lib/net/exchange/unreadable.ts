/** Bodies that rules read and cannot: refused, so that no encoding hides a body from them (docs/contracts.md §5, "Guards"). */
import type { Decision, Draft, Gate } from "../../policy/mod.ts";
import { isUnreadable } from "../message/body_recorder.ts";

/** Parts of events that hold bodies, as {@linkcode Gate.reads} takes them. */
export const REQUEST_BODY = "http.request.body";
export const RESPONSE_BODY = "http.response.body";

/** Refuses a request whose body rules read and cannot; `undefined` for one that may be decided on. */
export function bodyRefusal(gate: Gate, draft: Draft): Decision | undefined {
  if (!gate.reads(REQUEST_BODY) || !isUnreadable(draft.http!.request.body)) return undefined;
  return gate.refuse(draft, {
    id: "guard-body",
    reason: "a rule reads bodies, and the encoding or charset of this one cannot be undone",
    remedy: "send the body as UTF-8, with gzip, deflate, br, zstd or no encoding",
  });
}
