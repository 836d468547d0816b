import type { VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { countRunningJobs } from "./program.ts";
import { pairs, stageTable, UTC_NOTE } from "../output.ts";
import { formatLive } from "../files/repository.ts";
import { formatDisk, formatRam } from "./new_vm.ts";

export const command: Command = {
  name: "info",
  usage: "NAME [--json]",
  summary: "show the details of a VM",
  notes: [UTC_NOTE],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: ["vms"],
  examples: ["sbx info demo", "sbx info demo --json"],
  async run(args) {
    const client = await connect();
    const info = await client.json<VmInfo>("GET", `/vms/${segment(args.words[0])}/info`);
    if (args.has("json")) await printJson(info);
    else await print(formatInfo(info, await countRunningJobs(client, info.id)));
    return 0;
  },
};

function formatProfile({ profile_id, profile_in_force }: VmInfo): string {
  if (!profile_in_force) return profile_id;
  const { revision, outdated } = profile_in_force;
  const text = `${profile_id}, revision ${revision}`;
  return outdated ? `${text} as it was at the start; its files have changed: sbx policy reload` : text;
}

function formatStart({ started_by, started_why }: VmInfo): string | undefined {
  if (started_by === "template") return "from a template";
  if (started_by === "resume") {
    return ["from the memory that it was suspended with", started_why].filter(Boolean).join(": ");
  }
  if (started_by === "fork") return "from the memory of the VM that it is a copy of";
  return started_by && ["cold", started_why].filter(Boolean).join(": ");
}

function formatOrigin({ forked_from }: VmInfo): string | undefined {
  if (!forked_from) return undefined;
  const { session, event } = forked_from;
  return event ? `${session}, after its event ${event.id}` : session;
}

/** The profile and version of a VM's image. */
export function formatImage({ image }: VmInfo): string | undefined {
  if (image?.reference) return `${image.reference} (${image.digest})`;
  return image && [image.profile_id, image.version].filter(Boolean).join(" ");
}

function formatInfo(info: VmInfo, jobs: number): string {
  const features = Object.entries(info.features).filter(([, isPresent]) => isPresent).map(([name]) => name);
  const lines = pairs([
    ["name", info.name],
    ["id", info.id],
    ["status", info.status],
    ["error", info.last_error],
    ["profile", formatProfile(info)],
    ["image", formatImage(info)],
    ["image ports", info.image?.ports?.join(", ")],
    [
      "image before",
      info.image?.before && (info.image.before.reference ?? `that of profile ${info.profile_id}`),
    ],
    ["deprecated", info.deprecated?.join("; ")],
    ["persistent", info.persistent ? "yes" : "no"],
    ["created", info.created_at],
    ["session", info.session_id],
    ["size", `${count(info.cpus, "CPU")} of ${info.arch}, ${formatRam(info.ram_mb)}`],
    ["disk", formatDisk(info)],
    ["hypervisor", [info.hypervisor, info.accelerator].filter(Boolean).join(", ")],
    ["started", formatStart(info)],
    ["forked from", formatOrigin(info)],
    ["features", features.join(" ") || "none"],
    ["pid", info.pid?.toString()],
    ["jobs", jobs > 0 ? `${jobs}: sbx jobs ${info.name}` : undefined],
    ["workspace", info.workspace],
    ["live", info.live && formatLive(info.live)],
    ...(info.repositories ?? []).filter(({ is_live }) => !is_live).map((each): [string, string] => [
      each.is_repository ? "repository" : "folder",
      `${each.dir} → ${each.place}${each.is_read_only ? " (read-only: nothing comes back)" : ""}`,
    ]),
    ["logs", info.logs],
    ["actions", info.available_actions.join(" ")],
  ]);
  return info.boot_stages.length === 0 ? lines : `${lines}\n\n${stageTable(info.boot_stages)}`;
}
