import type { SessionList } from "../../../lib/api/session.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "sessions",
  usage: "[--json]",
  summary: "every session whose record is kept, also of VMs that are gone",
  options: [JSON_OPTION],
  examples: ["sbx sessions"],
  async run(given) {
    const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list");
    if (given.on("json")) await printJson({ sessions });
    else {
      const rows = sessions.map(({ id, name, profile_id, created_at, ended_at }) => [
        id,
        name,
        profile_id,
        created_at.slice(0, 19),
        ended_at?.slice(0, 19) ?? "",
      ]);
      await print(table(["SESSION", "NAME", "PROFILE", "CREATED", "ENDED"], rows));
    }
    return 0;
  },
};
