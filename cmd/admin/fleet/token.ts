import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { makeToken, TOKEN_HOURS, TOKEN_HOURS_MAX } from "../../../lib/fleet/receive/mod.ts";

/** `sbx-admin fleet token`: enrols one machine. */
export const fleetToken: Command = {
  name: "fleet token",
  usage: "DIR [--team NAME] [--hours N] [--json]",
  summary: "make a one-time token with which one machine enrols",
  options: [
    { name: "team", value: "NAME", about: "team of the machine, for questions by team" },
    { name: "hours", value: "N", about: `how long it is good for; default ${TOKEN_HOURS}` },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet token /srv/fleet --team payments"],
  async run(args) {
    const hours = args.number("hours", { min: 1, max: TOKEN_HOURS_MAX });
    const team = args.text("team");
    const made = await makeToken(args.words[0], {
      ...(hours !== undefined && { hours }),
      ...(team !== undefined && { team }),
    });
    if (args.has("json")) await printJson(made);
    else {
      await print(made.token);
      note(`for one machine, until ${made.expires_at}: sbx fleet enrol < token.txt`);
    }
    return 0;
  },
};
