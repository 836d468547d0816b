import type { SbxError } from "./error.ts";
import { type ErrorBody, errorBody } from "./status.ts";

/** Advice for a guest that cannot help itself. */
export const ASK_USER = "ask your user";

/** Codes whose message and hint are about the guest's own bytes. */
const OPEN = /^(request|upstream)\.|^dns\.(not_found|upstream)$|^mcp\.(arguments\.invalid|channel_closed)$/;
/** Codes whose message is about the guest's request; their hints are for people on the host. */
const MESSAGE_ONLY = /^(policy|snapshot)\.|^(credential\.denied|net\.closed)$|^mcp\.(?!unavailable$|pins\.)/;
/** Words for the other codes, which are about the host: its files, stores and programs. */
const WORDS: Record<string, string> = {
  "disk.full": "the disk of the host has no room for this",
  "ledger.unavailable": "sbx cannot record this now, so it does not happen",
};

/** The body of an error for a guest, without anything of the host. */
export function guestErrorBody(error: SbxError): ErrorBody {
  const { code, message } = error;
  if (OPEN.test(code)) return errorBody(error);
  const text = MESSAGE_ONLY.test(code) ? message : WORDS[code] ?? "sbx cannot do this now";
  return { error: text, code, hint: ASK_USER };
}
