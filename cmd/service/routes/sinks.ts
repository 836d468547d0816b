import type { Hono } from "hono";
import { type SinkList, sinkRoutes, type SinkTrials } from "../../../lib/client/api/mod.ts";
import type { EventFeeds } from "../../../lib/service/mod.ts";
import { handle } from "../handle.ts";

/** Routes of the sinks of events. */
export function routeSinks(app: Hono, feeds: Pick<EventFeeds, "standing" | "try">): void {
  handle(app, sinkRoutes.list, async (): Promise<SinkList> => ({ sinks: await feeds.standing() }));
  handle(app, sinkRoutes.try, async (): Promise<SinkTrials> => ({ sinks: await feeds.try() }));
}
