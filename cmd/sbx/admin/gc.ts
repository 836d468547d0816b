import type { Collected } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { connect } from "../connect.ts";
import { table } from "../output.ts";

export const command: Command = {
  name: "gc",
  usage: "[--dry-run] [--json]",
  summary: "remove unused images and templates, and records over a cap",
  notes: [
    "Records go by vm.resources.retention_days and ledger.max_total_mb, in the order of ledger.remove_first, each after a copy to ledger.export_dir where that is set. Records that corp holds, or that were not sent yet, stay and are listed.",
    "Deleted VMs stay for their day (sbx purge --deleted), and so does the shared cache (sbx cache clear).",
  ],
  options: [
    { name: "dry-run", about: "list what would be removed, and remove nothing" },
    JSON_OPTION,
  ],
  examples: ["sbx gc --dry-run", "sbx gc"],
  async run(args) {
    const json = { dry_run: args.has("dry-run") };
    const collected = await (await connect()).json<Collected>("POST", "/gc", { json });
    await (args.has("json") ? printJson(collected) : print(formatCollected(collected)));
    return 0;
  },
};

function formatCollected({ dry_run, bytes, images, oci_images, templates, records }: Collected): string {
  const groups: [string, string[], number][] = [
    ["image files", images.files, images.bytes],
    ["OCI images", oci_images.names, oci_images.bytes],
    ["templates", templates.ids, templates.bytes],
  ];
  const rows = [
    ...groups.filter(([, , size]) => size > 0).map(([kind, names, size]) => [
      kind,
      formatBytes(size),
      names.join(", ") || "leftovers",
    ]),
    ...records.removed.map(({ id, name, bytes, reason, ended_at }) => [
      "record",
      formatBytes(bytes),
      `${name} (${id}), ended ${ended_at.slice(0, 10)}: ${
        reason === "room" ? "too little room" : "past its retention"
      }`,
    ]),
  ];
  const kept = records.kept.map(({ bytes, name, why }) => ["record", formatBytes(bytes), `${name}: ${why}`]);
  const parts = [
    rows.length > 0 ? table([dry_run ? "WOULD GO" : "REMOVED", "SIZE", "NAMES"], rows) : "",
    kept.length > 0 ? table(["STAYS", "SIZE", "WHY"], kept) : "",
    images.skipped ? `image files stay: ${images.skipped}` : "",
    `${formatBytes(bytes)} ${dry_run ? "would be freed" : "freed"}`,
  ];
  return parts.filter((part) => part !== "").join("\n");
}
