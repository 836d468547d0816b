/** Refusals of policy while a program ran. */
import { z } from "zod";
import type { Client } from "../../../lib/client/mod.ts";
import { commonOf, eventId, fetchEvents, type ListedEvent, subjectOf } from "./event.ts";

/** Refusals in the result of one call. */
export const REFUSALS_MAX = 20;
/** Attempts to read the end of the program from the ledger, and `ms` between two; events are written within 50 ms. */
const ATTEMPTS = 20;
const ATTEMPT_MS = 25;

export const Refusal = z.object({
  event_id: z.string().describe("pass it to `why`"),
  event_type: z.string(),
  rule_id: z.string(),
  subject: z.string().describe("what was refused"),
});
export type Refusal = z.infer<typeof Refusal>;

/**
 * Refusals in a VM since a program began.
 *
 * @param since Unix time in `ms`
 * @param program event of the program
 */
export async function fetchRefusals(
  client: Client,
  session: string,
  since: number,
  program: string,
): Promise<Refusal[]> {
  for (let left = ATTEMPTS; left > 0; left--) {
    const { events } = await fetchEvents(client, session, { family: "process", since, limit: 1000 });
    if (isRecorded(events, program)) break;
    await new Promise((resolve) => setTimeout(resolve, ATTEMPT_MS));
  }
  const query = { denied: "true", since, limit: REFUSALS_MAX } as const;
  return refusalsIn((await fetchEvents(client, session, query)).events);
}

/** Refusals among events. */
export function refusalsIn(events: ListedEvent[]): Refusal[] {
  return events.filter(isRefused).slice(0, REFUSALS_MAX).map((event) => ({
    event_id: eventId(event),
    event_type: String(commonOf(event).event_type),
    rule_id: String(event.rule_id ?? ""),
    subject: subjectOf(event),
  }));
}

/** Tests whether everything until the end of a program is in the ledger. */
function isRecorded(events: ListedEvent[], program: string): boolean {
  const at = events.findIndex((event) => eventId(event) === program);
  if (at < 0) return false;
  return isRefused(events[at]) ||
    events.slice(at + 1).some((event) => commonOf(event).event_type === "process.exit");
}

function isRefused({ decision }: ListedEvent): boolean {
  return decision === "block";
}
