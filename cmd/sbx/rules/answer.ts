/** `sbx allow` and `sbx deny`: answers to an ask. */
import type { AskAnswer, AskList, AskResolve, AskView } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { usageError, UTC_NOTE } from "../usage.ts";

const SAVE_OPTION: Option = {
  name: "save-as-rule",
  about:
    "first write a rule into the profile, so that the covered events pass without a question; shows its effect",
};

/** Creates the command for one decision. */
export function answerCommand(decision: AskAnswer["decision"]): Command {
  const command: Command = {
    name: decision,
    usage: decision === "allow" ? "ASK [--for TIME] [--save-as-rule]" : "ASK [--for TIME]",
    summary: `${decision} a waiting event, or with --for those like it`,
    notes: ["With --for it answers every event that sbx asks shows as covered.", UTC_NOTE],
    options: [
      {
        name: "for",
        value: "TIME",
        about: "answer the covered events alike for minutes or hours, such as 10m or 2h, or for the session",
      },
      ...(decision === "allow" ? [SAVE_OPTION] : []),
      JSON_OPTION,
    ],
    words: { min: 1, max: 1 },
    examples: [
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a`,
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a --for 10m`,
    ],
    async run(args) {
      const answer: AskAnswer = { decision, ...scopeOf(command, args) };
      const path = `/asks/${encodeURIComponent(args.words[0])}/resolve`;
      const client = await connect();
      const shown = await findAsk(client, args.words[0]);
      if (args.has("save-as-rule")) await (await import("./save_rule.ts")).saveAsRule(client, shown);
      const json: AskResolve = { ...answer, digest: shown.digest };
      const ask = await client.json<AskView>("POST", path, { json });
      await (args.has("json") ? printJson(ask) : print(
        plain(`${ask.ask_id} ${ask.status}: ${ask.event_type} ${reachOf(ask, answer)} (${ask.rule_id})`),
      ));
      return 0;
    },
  };
  return command;
}

/** The pending ask with an id, which includes part of the text's digest. @throws {SbxError} `ask.not_found` */
async function findAsk(client: Client, askId: string): Promise<AskView> {
  const { asks } = await client.json<AskList>("GET", "/asks");
  const ask = asks.find(({ ask_id }) => ask_id === askId);
  if (ask) return ask;
  throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered, or it expired`, {
    hint: "sbx asks lists the pending ones",
  });
}

/** The event of a one-time answer, or the covered events of a lasting one. */
function reachOf({ subject, covers }: AskView, { scope, minutes }: AskAnswer): string {
  if (scope === "once" || !covers) return subject;
  return `${covers}, for ${scope === "session" ? "the session" : count(minutes!, "minute")}`;
}

function scopeOf(command: Command, args: Arguments): Omit<AskAnswer, "decision"> {
  const text = args.text("for");
  if (text === undefined) return { scope: "once" };
  if (text === "session") return { scope: "session" };
  const [, number, unit] = text.match(/^(\d{1,4})(m|h)$/) ?? [];
  if (!number) {
    throw usageError(
      command,
      `invalid value "${text}" of --for`,
      "give minutes or hours, such as 10m or 2h, or session",
    );
  }
  return { scope: "minutes", minutes: Number(number) * (unit === "h" ? 60 : 1) };
}
