import type { EventsResult } from "../../lib/api/session.ts";
import { type Client, segment } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { type ListedEvent, objectOf } from "./event_row.ts";

/** Events that one request asks for (the API's own maximum). */
const PAGE = 1000;
/** How often a session that is followed is looked at, and after how many looks without news whether its VM is there. */
const FOLLOW_MS = 300;
const QUIET_LOOKS = 5;

/** Which events of a session are wanted. */
export interface Wanted {
  family?: string;
  denied?: "true";
}

/**
 * Pages of a session's events, oldest first.
 *
 * @param follow goes on with what comes until the VM is deleted; a page is empty while nothing does
 */
export async function* eventPages(
  client: Client,
  id: string,
  wanted: Wanted,
  follow = false,
): AsyncGenerator<ListedEvent[]> {
  // Another VM may get the name of this one.
  const vm = follow ? await vmIdOf(client, id) : undefined;
  const session = vm ?? id;
  let ended = follow && vm === undefined;
  for (let cursor: string | undefined, quiet = 0;;) {
    const { events, next_cursor } = await eventPage(client, session, wanted, cursor);
    cursor = cursorAfter(events) ?? cursor;
    if (events.length || follow) yield events;
    if (next_cursor !== undefined) continue;
    if (!follow || ended) return;
    quiet = events.length ? 0 : quiet + 1;
    // One look more follows: what came last may have come since this one.
    if (quiet % QUIET_LOOKS === 0) ended = quiet > 0 && await vmIdOf(client, session) === undefined;
    if (!ended) await new Promise((resolve) => setTimeout(resolve, FOLLOW_MS));
  }
}

/** What stands for "behind these" in the next request. */
function cursorAfter(events: ListedEvent[]): string | undefined {
  const last = events.at(-1);
  return last && String(objectOf(last.common).sequence);
}

async function eventPage(client: Client, id: string, wanted: Wanted, cursor?: string): Promise<EventsResult> {
  const query = { ...wanted, cursor, limit: PAGE };
  return await client.json<EventsResult>("GET", `/sessions/${segment(id)}/events`, { query });
}

/** The id of a VM that there is; a session's record stays when its VM is deleted. */
async function vmIdOf(client: Client, id: string): Promise<string | undefined> {
  try {
    return (await client.json<{ id: string }>("GET", `/vms/${segment(id)}/status`)).id;
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.not_found") return undefined;
    throw error;
  }
}
