import type { EventsResult } from "../../lib/api/session.ts";
import { type Client, segment } from "../../lib/client/mod.ts";
import { type ListedEvent, objectOf } from "./event_row.ts";

/** Events that one request asks for (the API's own maximum). */
const PAGE = 1000;
/** How often a session that is followed is looked at. */
const FOLLOW_MS = 300;

/** Which events of a session are wanted. */
export interface Wanted {
  family?: string;
  denied?: "true";
}

/**
 * Pages of a session's events, oldest first.
 *
 * @param follow goes on for ever with what comes; a page is never empty then
 */
export async function* eventPages(
  client: Client,
  id: string,
  wanted: Wanted,
  follow = false,
): AsyncGenerator<ListedEvent[]> {
  for (let cursor: string | undefined;;) {
    const query = { ...wanted, cursor, limit: PAGE };
    const page = await client.json<EventsResult>("GET", `/sessions/${segment(id)}/events`, { query });
    const last = page.events.at(-1);
    if (last) {
      yield page.events;
      cursor = String(objectOf(last.common).sequence);
    }
    if (page.next_cursor !== undefined) continue;
    if (!follow) return;
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_MS));
  }
}
