import type { FindingList } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { table, UTC_NOTE } from "../output.ts";

export const command: Command = {
  name: "findings",
  usage: "NAME [--json]",
  summary: "list the findings of detections and rules in a session",
  notes: [
    "Works also after the VM was deleted.",
    UTC_NOTE,
  ],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx findings demo"],
  async run(args) {
    const path = `/sessions/${segment(args.words[0])}/findings`;
    const { findings } = await (await connect()).json<FindingList>("GET", path);
    if (args.has("json")) await printJson({ findings });
    else if (findings.length === 0) await print("no findings");
    else {
      const rows = findings.map(({ severity, event_id, pack_id, rule_id, title, ...event }) => [
        event.timestamp_unix_ms === undefined
          ? ""
          : new Date(event.timestamp_unix_ms).toISOString().slice(11, 23),
        severity,
        event.decision?.outcome ?? "",
        event_id,
        pack_id,
        rule_id,
        title,
        event.vm_name ?? "",
        event.process ?? "",
        event.subject ?? "",
      ]);
      await print(
        table(
          ["TIME", "SEVERITY", "DECISION", "EVENT", "PACK", "RULE", "TITLE", "VM", "PROGRAM", "SUBJECT"],
          rows,
        ),
      );
    }
    return 0;
  },
};
