import type { SessionList } from "../../../lib/api/session.ts";
import type { WhyResult } from "../../../lib/api/policy.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { answerLine } from "../../../lib/policy/ask/answer.ts";
import { guardRemedy, isGuard } from "../../../lib/policy/engine/guard.ts";
import { usage } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { objectOf, subjectOf } from "../event_row.ts";
import { pairs, print, printJson } from "../output.ts";

const EVENT_ID = /^[0-9a-f]{12}$/;

export const command: Command = {
  name: "why",
  usage: "EVENT [SESSION] [--json]",
  summary:
    "why an event was allowed or blocked: the rule, the fields that it looked at, what nearly matched, what to do",
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  examples: ["sbx why 3f2a90c1d7e4", "sbx why 3f2a90c1d7e4 demo --json"],
  async run(given) {
    const [id, session] = given.words;
    if (!EVENT_ID.test(id)) {
      throw usage(
        command,
        `"${id}" is no event's id`,
        "sbx events NAME shows the ids: 12 hex characters each",
      );
    }
    const why = await find(await connect(), id, session);
    await (given.on("json") ? printJson(why) : print(explanation(why)));
    return 0;
  },
};

/** Looks in one session, or in all of them, the newest first. */
async function find(client: Client, id: string, session?: string): Promise<WhyResult> {
  if (session) return await client.json("GET", pathOf(session, id));
  const { sessions } = await client.json<SessionList>("GET", "/sessions/list");
  for (const { id: each } of sessions) {
    try {
      return await client.json("GET", pathOf(each, id));
    } catch (error) {
      if (!(error instanceof SbxError) || !error.code.endsWith(".not_found")) throw error;
    }
  }
  throw new SbxError("event.not_found", `no session that is kept has an event ${id}`, {
    hint: "sbx events NAME lists those of a session",
  });
}

function pathOf(session: string, id: string): string {
  return `/sessions/${segment(session)}/events/${id}/why`;
}

/** The record, a line for each thing that it says. */
export function explanation({ event, decision, findings }: WhyResult): string {
  const common = objectOf(event.common);
  const lines: [string, string | undefined][] = [
    ["event", `${common.event_id} ${common.event_type}`],
    ["time", new Date(Number(common.timestamp_unix_ms)).toISOString()],
    ["what", subjectOf(event)],
  ];
  if (!decision) lines.push(["decision", "none: it was only observed"]);
  else {
    const { rule, matched_fields, rewrites, near_misses, remedy, answered } = decision;
    const place = rule.file ? ` (${rule.file}:${rule.line ?? 1})` : "";
    lines.push(
      ["decision", decision.decision],
      ["answer", answered && answerLine(answered)],
      [
        "rule",
        isGuard(rule.id)
          ? `guard "${rule.id}": built in, before any rule`
          : `${rule.layer} rule "${rule.id}"${place}`,
      ],
      ["reason", rule.reason ?? rule.name],
      ...matched_fields.map(({ path, value }): [string, string] => ["field", `${path} = ${shown(value)}`]),
      ...rewrites.map((
        { op, path, rule_id },
      ): [string, string] => ["rewrite", `${op} ${path} by "${rule_id}"`]),
      ...near_misses.map(({ rule_id, failed, path, value }): [string, string] => [
        "near miss",
        `"${rule_id}" would have matched but for ${failed} (${path} is ${
          value === undefined ? "absent" : shown(value)
        })`,
      ]),
      ["remedy", remedy ?? (isGuard(rule.id) ? guardRemedy(rule.id) : undefined)],
    );
  }
  for (const { severity, title, rule_id } of findings) {
    lines.push(["finding", `${severity}: ${title} (${rule_id})`]);
  }
  return pairs(lines);
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? "absent";
}
