import type { SessionList } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { table, UTC_NOTE } from "../output.ts";

export const command: Command = {
  name: "sessions",
  usage: "[--json]",
  summary: "list the recorded sessions, of deleted VMs too",
  notes: [UTC_NOTE],
  options: [JSON_OPTION],
  examples: ["sbx sessions"],
  async run(args) {
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list");
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
