/** Requests of a session with what became of those that policy let go and a guard then kept back. */
import type { Client } from "../../lib/client/mod.ts";
import { allEvents, cursorAfter, eventPages } from "./event_pages.ts";
import { type ListedEvent, objectOf } from "./event_row.ts";

/** What the broker says of a secret that it took out of a body: that request itself went out (lib/credential/grant.ts). */
export const WITHHELD = "withheld from a body";
/** Requests that a guard may still refuse while they are followed. */
const OPEN_MAX = 1000;

/**
 * Pages of requests, oldest first. While they are followed, a request that turns out to be refused comes once more.
 *
 * @param denied only those that policy or a guard refused
 */
export async function* requestPages(
  client: Client,
  id: string,
  { denied, follow }: { denied: boolean; follow: boolean },
): AsyncGenerator<ListedEvent[]> {
  const refusals = new Refusals();
  let open: ListedEvent[] = [];
  let cursor: string | undefined;
  for await (const page of eventPages(client, id, { family: "http" }, follow)) {
    // Read after the requests: a refusal is there before its request has ended.
    const guards = await allEvents(client, id, { family: "credential", denied: "true" }, cursor);
    cursor = cursorAfter(guards) ?? cursor;
    refusals.add(guards);
    const late = open.map((request) => refusals.put(request)).filter(isBlocked);
    const now = page.map((request) => refusals.put(request));
    if (follow) {
      const ids = new Set(late.map(idOf));
      open = [
        ...open.filter((request) => !ids.has(idOf(request))),
        ...now.filter((each) => !isBlocked(each)),
      ];
      open = open.slice(-OPEN_MAX);
    }
    const shown = [...late, ...now];
    yield denied ? shown.filter(isBlocked) : shown;
  }
}

/** What guards refused, by the request that it was in. */
export class Refusals {
  readonly #by = new Map<unknown, { rule_id: unknown; reason: unknown }>();

  /** @param guards events of the credential family that were denied */
  add(guards: ListedEvent[]): void {
    for (const { common, credential, rule_id } of guards) {
      const { reason } = objectOf(objectOf(credential).substitution);
      if (reason !== WITHHELD) this.#by.set(objectOf(objectOf(common).labels).event_id, { rule_id, reason });
    }
  }

  /** The request; if a guard refused it, as one that is blocked. */
  put(request: ListedEvent): ListedEvent {
    const refusal = request.decision === "allow" ? this.#by.get(idOf(request)) : undefined;
    if (!refusal) return request;
    const { rule_id, reason: error } = refusal;
    return { ...request, decision: "block", rule_id, outcome: { error, ...objectOf(request.outcome) } };
  }
}

function isBlocked({ decision }: ListedEvent): boolean {
  return decision === "block";
}

function idOf(event: ListedEvent): unknown {
  return objectOf(event.common).event_id;
}
