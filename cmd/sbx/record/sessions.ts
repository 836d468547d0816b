import type { SessionList } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";
import { CHOICE_OPTIONS, choiceOf } from "./across.ts";
import { readPeriod } from "./event_query.ts";

export const command: Command = {
  name: "sessions",
  usage: "[--past] [--profile ID] [--vm NAME] [--since TIME] [--until TIME] [--json]",
  summary: "list the recorded sessions, of deleted VMs too",
  notes: [UTC_NOTE],
  options: [
    { name: "past", about: "only sessions that have ended" },
    ...CHOICE_OPTIONS.filter(({ name }) => name !== "all"),
    { name: "since", value: "TIME", about: "only ones that were there from this time on, as of sbx events" },
    { name: "until", value: "TIME", about: "only ones that began before this time" },
    JSON_OPTION,
  ],
  examples: ["sbx sessions", "sbx sessions --past --since yesterday"],
  async run(args) {
    const query = {
      ...choiceOf(args),
      ...(args.has("past") && { state: "past" }),
      ...await readPeriod(args),
    };
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list", { query });
    if (args.has("json")) await printJson({ sessions });
    else {
      const rows = sessions.map(({ id, name, profile_id, created_at, ended_at, user, client }) => [
        id,
        name,
        profile_id,
        created_at.slice(0, 19),
        ended_at?.slice(0, 19) ?? "",
        user === undefined ? "" : `${user} (${client})`,
      ]);
      await print(table(["SESSION", "NAME", "PROFILE", "CREATED", "ENDED", "MADE BY"], rows));
    }
    return 0;
  },
};
