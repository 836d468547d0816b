import type { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import { guardDecision } from "../../policy/mod.ts";
import type { Recorder } from "./recorder.ts";

/** Guard for an event that the ledger does not take. */
const GUARD_LEDGER = "guard-ledger";

/**
 * Records the refusal of an event that the ledger does not take: a full ledger has a reserve for refusals.
 *
 * @param redact makes the event as it may be recorded
 * @returns the error, to be thrown
 */
export function recordRefusal(recorder: Recorder, redact: () => Event, error: SbxError): SbxError {
  try {
    const event = redact();
    const decision = guardDecision(event.common.event_id, { id: GUARD_LEDGER, reason: error.message });
    recorder.append({ event, decision });
  } catch {
    // Refused all the same, without a record.
  }
  return error;
}
