/** `sbx allow` and `sbx deny`: a person's answer to an ask. */
import type { AskAnswer, AskView } from "../../lib/api/policy.ts";
import { usage } from "./arguments.ts";
import { type Command, type Given, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { plain, print, printJson } from "./output.ts";

/** The command that answers with one decision. */
export function answerCommand(decision: AskAnswer["decision"]): Command {
  const command: Command = {
    name: decision,
    usage: "ASK [--for TIME]",
    summary: `${decision} what waits; once, or for as long as --for says`,
    options: [
      {
        name: "for",
        value: "TIME",
        about: "minutes or hours such as 10m or 2h, or session: what comes alike gets the same answer",
      },
      JSON_OPTION,
    ],
    words: { min: 1, max: 1 },
    examples: [`sbx ${decision} ask-3f2a90c1d7e4`, `sbx ${decision} ask-3f2a90c1d7e4 --for 10m`],
    async run(given) {
      const json: AskAnswer = { decision, ...scopeOf(command, given) };
      const path = `/asks/${encodeURIComponent(given.words[0])}/resolve`;
      const ask = await (await connect()).json<AskView>("POST", path, { json });
      await (given.on("json")
        ? printJson(ask)
        : print(plain(`${ask.ask_id} ${ask.status}: ${ask.event_type} ${ask.subject} (${ask.rule_id})`)));
      return 0;
    },
  };
  return command;
}

function scopeOf(command: Command, given: Given): Omit<AskAnswer, "decision"> {
  const text = given.text("for");
  if (text === undefined) return { scope: "once" };
  if (text === "session") return { scope: "session" };
  const [, number, unit] = text.match(/^(\d{1,4})(m|h)$/) ?? [];
  if (!number) {
    throw usage(command, `--for is "${text}"`, "give minutes or hours, such as 10m or 2h, or session");
  }
  return { scope: "minutes", minutes: Number(number) * (unit === "h" ? 60 : 1) };
}
