import type { EventsResult } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { ListedEvent } from "./event_row.ts";

/** Selects events of a session; the API's words. */
export type EventFilter = {
  family?: string;
  /** requests, and names without an address */
  network?: "true";
  denied?: "true";
  decision?: string;
  /** unix `ms` */
  since?: number;
  /** unix `ms` */
  until?: number;
  host?: string;
  process?: string;
  path?: string;
  grep?: string;
};

/** Events of one request, the API's maximum. */
const PAGE_SIZE = 1000;
/** Interval between requests that follow a session, in `ms`. */
const POLL_MS = 300;
/** Requests without new events after which the VM is checked. */
const QUIET_POLLS = 5;

interface PageOptions {
  /** continue with new events until the VM is deleted; pages without new events are empty */
  follow?: boolean;
  /** events of one page */
  size?: number;
}

/** Yields pages of a session's events, oldest first. */
export async function* eventPages(
  client: Client,
  id: string,
  filter: EventFilter,
  { follow = false, size = PAGE_SIZE }: PageOptions = {},
): AsyncGenerator<ListedEvent[]> {
  // The id, since another VM may get the name later.
  const vm = follow ? await findVmId(client, id) : undefined;
  const session = vm ?? id;
  let ended = follow && vm === undefined;
  for (let cursor: string | undefined, quiet = 0;;) {
    const { events, next_cursor } = await fetchPage(client, session, { ...filter, cursor, limit: size });
    cursor = cursorAfter(events) ?? cursor;
    if (events.length || follow) yield events;
    if (next_cursor !== undefined) continue;
    if (!follow || ended) return;
    quiet = events.length ? 0 : quiet + 1;
    // One more request follows, for events recorded since the last one.
    if (quiet % QUIET_POLLS === 0) ended = quiet > 0 && await findVmId(client, session) === undefined;
    if (!ended) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Cursor for the next page. */
function cursorAfter(events: ListedEvent[]): string | undefined {
  const last = events.at(-1);
  return last && String(objectOf(last.common).sequence);
}

async function fetchPage(
  client: Client,
  id: string,
  query: EventFilter & { cursor?: string; limit: number },
): Promise<EventsResult> {
  return await client.json<EventsResult>("GET", `/sessions/${segment(id)}/events`, { query });
}

/** Returns the id of an existing VM; undefined if it was deleted, even if its session's record remains. */
async function findVmId(client: Client, id: string): Promise<string | undefined> {
  try {
    return (await client.json<{ id: string }>("GET", `/vms/${segment(id)}/status`)).id;
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.not_found") return undefined;
    throw error;
  }
}
