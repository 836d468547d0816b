/** Tools for a VM's logs, its events, and the decisions on them. */
import { z } from "zod";
import { EventsQuery, EventsResult, LogsResult, WhyResult } from "../../../lib/client/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { jsonBytes, type Tool, tool, vm } from "../tool.ts";
import { commonOf, eventLine, fetchEvents, type ListedEvent } from "./event.ts";

/** Events of one page, by default and at most. */
const EVENTS = 50;
const EVENTS_MAX = 200;
/** `bytes` of a page of whole events (docs/design/contracts/14-limits.md §14). */
const EVENTS_BYTES = 128 * 1024;
/** Lines of each log, by default and at most. */
const LINES = 50;
const LINES_MAX = 1000;

const session = vm.describe("name or id of the VM, or the session_id of a deleted one");
const hints = { readOnly: true, destructive: false, idempotent: true, openWorld: false };

export const RECORD_TOOLS: Tool[] = [
  tool({
    name: "logs",
    title: "Show a VM's logs",
    description:
      "Returns the last lines of a VM's logs: kernel console, hypervisor, sbx-process. Use it for a Defunct VM.",
    input: z.strictObject({
      vm,
      lines: z.int().min(1).max(LINES_MAX).default(LINES).describe("last lines of each log"),
    }),
    output: LogsResult,
    hints,
    run: async ({ lines, ...input }, { client, vm }) => {
      const { logs } = await client.json<LogsResult>("GET", `/vms/${segment(await vm(input.vm))}/logs`);
      return {
        logs: logs.map((log) => ({
          ...log,
          lines: log.lines.slice(-lines),
          truncated: log.truncated || log.lines.length > lines,
        })),
      };
    },
  }),
  tool({
    name: "events",
    title: "Show a VM's events",
    description:
      "Returns the events of a VM's session, oldest first, a line each: time, event_id, type, decision and rule, subject. " +
      "Programs, HTTP and DNS requests, MCP and model calls, files. With denied: true only the ones that policy refused: check " +
      "these first when a program in the VM gets 403 or NXDOMAIN. Pass an event_id to `why`; bodies: true returns whole " +
      "events with their headers and bodies.",
    input: z.strictObject({
      vm: session,
      family: EventsQuery.shape.family.describe("only events of this family"),
      denied: z.boolean().default(false).describe("only refused events"),
      bodies: z.boolean().default(false).describe(
        "whole events instead of lines; narrow the selection first",
      ),
      since: z.int().min(0).optional().describe("only events after this time, unix milliseconds"),
      cursor: z.string().optional().describe("next_cursor of the previous page"),
      limit: z.int().min(1).max(EVENTS_MAX).default(EVENTS),
    }),
    output: z.object({
      lines: z.array(z.string()).optional(),
      events: EventsResult.shape.events.optional(),
      next_cursor: EventsResult.shape.next_cursor,
    }),
    hints,
    run: async ({ denied, bodies, ...query }, { client, vm }) => {
      const { vm: idOrName, ...rest } = query;
      const page = await fetchEvents(client, await vm(idOrName), {
        ...rest,
        ...(denied && { denied: "true" }),
      });
      const events = fitEvents(page.events, bodies);
      const next_cursor = events.length < page.events.length
        ? String(commonOf(page.events[events.length - 1]).sequence)
        : page.next_cursor;
      return bodies ? { events, next_cursor } : { lines: events.map(eventLine), next_cursor };
    },
  }),
  tool({
    name: "why",
    title: "Explain a decision",
    description:
      "Explains why an event was allowed or refused: the rule with its file and line, the values it compared, rules that " +
      "nearly matched, and in decision.remedy the smallest change that would allow the event. Only people change rules: " +
      "report the remedy to the person you work for.",
    input: z.strictObject({
      vm: session,
      event_id: z.string().regex(/^[0-9a-f]{12}$/, "12 hex characters").describe(
        "common.event_id from `events`, event_id from `exec`, or the id in a refusal",
      ),
    }),
    output: WhyResult,
    hints,
    run: async ({ event_id, ...input }, { client, vm }) =>
      await client.json("GET", `/sessions/${segment(await vm(input.vm))}/events/${event_id}/why`),
  }),
];

/** The first events that fit a result, at least one; as lines they always fit. */
function fitEvents(events: ListedEvent[], bodies: boolean): ListedEvent[] {
  if (!bodies) return events;
  let bytes = 0;
  const at = events.findIndex((event) => (bytes += jsonBytes(event) + 1) > EVENTS_BYTES);
  return at < 0 ? events : events.slice(0, Math.max(1, at));
}
