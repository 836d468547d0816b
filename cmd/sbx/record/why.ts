import type { SessionList, WhyResult } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { containerName, type EventProcess } from "../../../lib/event/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
// Not through mod.ts, which loads the rule engine.
import { answerLine, guardRemedy, isGuard } from "../../../lib/policy/decision/mod.ts";
import { connect } from "../connect.ts";
import { subjectWithError } from "./event_query.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs, usageError, UTC_NOTE } from "../output.ts";

type Decision = NonNullable<WhyResult["decision"]>;

const EVENT_ID = /^[0-9a-f]{12}$/;

export const command: Command = {
  name: "why",
  usage: "EVENT [SESSION] [--json]",
  summary: "explain why an event was allowed or blocked, and how to change that",
  notes: [
    "Shows the rule, the matched fields and near misses.",
    UTC_NOTE,
  ],
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  completes: ["events", "sessions"],
  examples: ["sbx why 3f2a90c1d7e4", "sbx why 3f2a90c1d7e4 demo --json"],
  async run(args) {
    const [id, session] = args.words;
    if (!EVENT_ID.test(id)) {
      throw usageError(
        command,
        `invalid event id "${id}"`,
        "give 12 hex characters; sbx events NAME shows the ids",
      );
    }
    const why = await findWhy(await connect(), id, session);
    await (args.has("json") ? printJson(why) : print(formatWhy(why)));
    return 0;
  },
};

/** Searches one session, or all sessions from the newest. @throws {SbxError} `event.not_found` */
async function findWhy(client: Client, id: string, session?: string): Promise<WhyResult> {
  if (session) return await client.json("GET", pathOf(session, id));
  const { sessions } = await client.json<SessionList>("GET", "/sessions/list");
  for (const { id: each } of sessions) {
    try {
      return await client.json("GET", pathOf(each, id));
    } catch (error) {
      if (!(error instanceof SbxError) || !error.code.endsWith(".not_found")) throw error;
    }
  }
  throw new SbxError("event.not_found", `event ${id} is in none of the recorded sessions`, {
    hint: "sbx events NAME lists the events of a session",
  });
}

function pathOf(session: string, id: string): string {
  return `/sessions/${segment(session)}/events/${id}/why`;
}

/** Name of a field, and its text; a field without a text is left out. */
type Line = [name: string, text: string | undefined];

/** Formats the decision record of an event, one field per line. */
export function formatWhy({ event, decision, findings }: WhyResult): string {
  const common = objectOf(event.common);
  return pairs([
    ["event", `${common.event_id} ${common.event_type}`],
    ["time", new Date(Number(common.timestamp_unix_ms)).toISOString()],
    ["subject", subjectWithError(event)],
    ["program", programOf(common)],
    ["container", containerOf(common)],
    ...decision ? decisionLines(decision) : [["decision", "none, only observed"] as Line],
    ...findings.map((
      { severity, title, rule_id },
    ): Line => ["finding", `${severity}: ${title} (${rule_id})`]),
  ]);
}

/** The event's guest program, where the event is not the program's own. */
function programOf({ process, event_type }: Record<string, unknown>): string | undefined {
  if (String(event_type).startsWith("process.")) return undefined;
  const { command, executable } = objectOf(process);
  return (command ?? executable) as string | undefined;
}

function containerOf({ process }: Record<string, unknown>): string | undefined {
  const container = objectOf(process).container as EventProcess["container"];
  return container &&
    [containerName(container), container.image && `of ${container.image}`].filter(Boolean).join(" ");
}

function decisionLines(
  { decision, rule, matched_fields, rewrites, near_misses, remedy, answered }: Decision,
): Line[] {
  return [
    ["decision", decision],
    ["answer", answered && answerLine(answered)],
    ["rule", ruleText(rule)],
    ["reason", rule.reason ?? rule.name],
    ...matched_fields.map(({ path, value }): Line => ["field", `${path} = ${valueText(value)}`]),
    ...rewrites.map(({ op, path, rule_id }): Line => ["rewrite", `${op} ${path} by "${rule_id}"`]),
    ...near_misses.map((miss): Line => ["near miss", missText(miss)]),
    ["remedy", remedy ?? (isGuard(rule.id) ? guardRemedy(rule.id) : undefined)],
  ];
}

function ruleText({ id, layer, file, line }: Decision["rule"]): string {
  if (isGuard(id)) return `guard "${id}": built in, applied before the rules`;
  return `${layer} rule "${id}"${file ? ` (${file}:${line ?? 1})` : ""}`;
}

function missText({ rule_id, failed, path, value }: Decision["near_misses"][number]): string {
  return `"${rule_id}" did not match only because of ${failed} (${path} is ${valueText(value)})`;
}

function valueText(value: unknown): string {
  return JSON.stringify(value) ?? "absent";
}
