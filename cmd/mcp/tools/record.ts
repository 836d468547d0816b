/** Tools for a VM's logs, its events, and the decisions on them. */
import { z } from "zod";
import { EventsQuery, EventsResult, LogsResult, WhyResult } from "../../../lib/api/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Tool, tool } from "../tool.ts";
import { vm } from "./common.ts";

/** Events of one page, by default and at most. */
const EVENTS = 50;
const EVENTS_MAX = 200;
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
    run: async ({ vm, lines }, { client, signal }) => {
      const { logs } = await client.json<LogsResult>("GET", `/vms/${segment(vm)}/logs`, { signal });
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
      "Returns the events of a VM's session, oldest first: programs, HTTP and DNS requests, MCP and model calls, files. " +
      "With denied: true only those that policy refused: check these first when a program in the VM gets 403 or NXDOMAIN. " +
      "Pass common.event_id of an event to `why`.",
    input: z.strictObject({
      vm: session,
      family: EventsQuery.shape.family.describe("only events of this family"),
      denied: z.boolean().default(false).describe("only refused events"),
      since: z.int().min(0).optional().describe("only events after this time, unix milliseconds"),
      cursor: z.string().optional().describe("next_cursor of the previous page"),
      limit: z.int().min(1).max(EVENTS_MAX).default(EVENTS),
    }),
    output: EventsResult,
    hints,
    run: ({ vm, denied, ...rest }, { client, signal }) => {
      const query = { ...rest, ...(denied && { denied: "true" }) };
      return client.json("GET", `/sessions/${segment(vm)}/events`, { query, signal });
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
    run: ({ vm, event_id }, { client, signal }) =>
      client.json("GET", `/sessions/${segment(vm)}/events/${event_id}/why`, { signal }),
  }),
];
