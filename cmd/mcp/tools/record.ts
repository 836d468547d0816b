/** Tools of what is kept of a VM: its logs, its events, and why each of them was decided as it was. */
import { z } from "zod";
import { WhyResult } from "../../../lib/api/policy.ts";
import { EventsQuery, EventsResult } from "../../../lib/api/session.ts";
import { LogsResult } from "../../../lib/api/vm.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Tool, tool } from "../tool.ts";
import { vm } from "./common.ts";

/** Events of one page when the agent names no number. */
const EVENTS = 50;
const EVENTS_MAX = 200;
/** Lines of each log when the agent names no number. */
const LINES = 50;
const LINES_MAX = 1000;

const session = vm.describe("name or id of the VM, or the session_id of one that is gone");
const hints = { readOnly: true, destructive: false, idempotent: true, openWorld: false };

export const RECORD_TOOLS: Tool[] = [
  tool({
    name: "logs",
    title: "Show a VM's logs",
    description:
      "The ends of a VM's logs: console of its kernel, hypervisor, its process. For a VM that is Defunct.",
    input: z.strictObject({
      vm,
      lines: z.int().min(1).max(LINES_MAX).default(LINES).describe("of each log, its last ones"),
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
    title: "Show what a VM did",
    description:
      "What a VM's session did, oldest first: programs, HTTP and DNS requests, MCP and model calls, files. With denied: " +
      "true only what policy refused, which is the first thing to look at when something in the VM gets 403 or " +
      "NXDOMAIN. common.event_id of an event is for `why`.",
    input: z.strictObject({
      vm: session,
      family: EventsQuery.shape.family.describe("only events of one family"),
      denied: z.boolean().default(false).describe("only what was refused"),
      since: z.int().min(0).optional().describe("only what came after, unix milliseconds"),
      cursor: z.string().optional().describe("next_cursor of the page before"),
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
      "Why an event was allowed or refused: the rule with its file and line, the values that it looked at, rules that " +
      "nearly matched, and in decision.remedy the smallest change that would let it pass. Rules are for people to " +
      "change: tell yours what remedy says.",
    input: z.strictObject({
      vm: session,
      event_id: z.string().regex(/^[0-9a-f]{12}$/, "12 hex characters").describe(
        "common.event_id of `events`, event_id of `exec`, or the one in a refusal",
      ),
    }),
    output: WhyResult,
    hints,
    run: ({ vm, event_id }, { client, signal }) =>
      client.json("GET", `/sessions/${segment(vm)}/events/${event_id}/why`, { signal }),
  }),
];
