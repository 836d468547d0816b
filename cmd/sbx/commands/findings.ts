import type { FindingList } from "../../../lib/api/detection.ts";
import { segment } from "../../../lib/client/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "findings",
  usage: "NAME [--json]",
  summary: "what detections and rules found in a VM's session; also after the VM is gone",
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completesNames: true,
  examples: ["sbx findings demo"],
  async run(given) {
    const path = `/sessions/${segment(given.words[0])}/findings`;
    const { findings } = await (await connect()).json<FindingList>("GET", path);
    if (given.on("json")) await printJson({ findings });
    else if (findings.length === 0) await print("nothing was found");
    else {
      const rows = findings.map(({ severity, event_id, pack_id, rule_id, title, ...event }) => [
        event.timestamp_unix_ms === undefined
          ? ""
          : new Date(event.timestamp_unix_ms).toISOString().slice(11, 23),
        severity,
        event_id,
        pack_id,
        rule_id,
        title,
        event.subject ?? "",
      ]);
      await print(table(["TIME", "SEVERITY", "EVENT", "PACK", "RULE", "TITLE", "WHAT"], rows));
    }
    return 0;
  },
};
