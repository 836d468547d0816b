/** Gives segments and reports read from a stream or a database to a store's receiver. */
import { asSbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { keepProblem, type Receiver, signerOf } from "../receive/mod.ts";
import { headerOf } from "../segment/mod.ts";

/** Outcome for a message: kept, redelivered later, or refused for good. */
export type Verdict = "done" | "later" | "never";

/** A store and its receiver. */
export interface Pulled {
  dir: string;
  receiver: Receiver;
}

/**
 * Gives a segment to the receiver. The machine already has its receipt, so `fleet verify` reports a refusal.
 *
 * @param mayWait the segment before may be on its way to another receiver
 */
export async function takeSegment(
  { dir, receiver }: Pulled,
  bytes: Uint8Array,
  mayWait: boolean,
): Promise<Verdict> {
  try {
    const answer = await receiver.take(bytes, mayWait);
    if (answer.kept) return "done";
    const { machine_id, session_id, from, to } = headerOf(bytes);
    const { position: end } = answer;
    if (to.events <= end.events && to.outcomes <= end.outcomes && to.journal <= end.journal) return "done";
    if (from.events > end.events || from.outcomes > end.outcomes || from.journal > end.journal) {
      return "later";
    }
    await keepProblem(dir, {
      kind: "refused",
      machine_id,
      session_id,
      detail: `events ${from.events + 1} to ${to.events} came in another segment than before: ` +
        "those behind the end are missing until the ledger is imported",
    });
    return "never";
  } catch (cause) {
    const verdict = verdictOf(cause, "a segment");
    // A receiver of a later sbx will take it: it waits in the stream until then.
    return verdict === "never" && isNewer(bytes) ? "later" : verdict;
  }
}

/** Gives a report to the receiver. */
export async function takeReport({ receiver }: Pulled, bytes: Uint8Array): Promise<Verdict> {
  try {
    await receiver.report(bytes, signerOf(bytes));
    return "done";
  } catch (cause) {
    return verdictOf(cause, "a report");
  }
}

function verdictOf(cause: unknown, what: string): Verdict {
  const error = asSbxError(cause, `receiving ${what}`);
  log.warn(`${what} is not kept: ${error.message}`);
  const isFinal = ["fleet.segment.invalid", "fleet.report.invalid", "fleet.machine.ended"].includes(
    error.code,
  );
  return isFinal ? "never" : "later";
}

/** True if a segment says that it is one of another version. */
function isNewer(bytes: Uint8Array): boolean {
  try {
    const line = new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(10)));
    const payload = new TextDecoder().decode(Uint8Array.fromBase64(JSON.parse(line).payload));
    const { schema } = JSON.parse(payload);
    return /^sbx\.ledger-segment\.v\d+$/.test(schema) && schema !== "sbx.ledger-segment.v1";
  } catch {
    return false;
  }
}
