import { currentArch } from "../../../lib/base/arch/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import type { ProgressSink } from "../../../lib/base/progress/mod.ts";
import type { UpdateStatusBody as UpdateStatus } from "../../../lib/client/api/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { UpdateResult } from "../../../lib/home/mod.ts";
import { connect } from "../connect.ts";
import { ARCH_OPTION, archOf } from "../vm/new_vm.ts";
import { restart } from "./update_restart.ts";
import { pairs, usageError } from "../output.ts";

const DOWNGRADE = { name: "allow-downgrade", about: "install an older version than the installed one" };

const install: Command = {
  name: "update install",
  usage:
    "[--assets [--manifest URL [--manifest-hash BLAKE3] [--mirror URL]…] [--arch ARCH]] [--allow-downgrade] [--json]",
  summary: "update sbx, profiles and images, or install an image by the address of its manifest",
  notes: [
    "Without options: the program and the profiles of the release channel, the fleet's rules, and images from where they " +
    "came. A failure of one does not stop the others; the exit code is 1 then.",
    "An interrupted download continues where it stopped. Running VMs keep the files that they booted from.",
    "The word install is optional.",
  ],
  options: [
    { name: "assets", about: "update images alone: all of this home, or the one of --manifest" },
    { name: "manifest", value: "URL", about: "manifest of an image: file://, https:// or http://" },
    {
      name: "manifest-hash",
      value: "BLAKE3",
      about: "hash that the manifest must have; needed for http:// from another machine",
    },
    { name: "mirror", value: "URL", about: "another folder with the manifest's files", many: true },
    ARCH_OPTION,
    DOWNGRADE,
    JSON_OPTION,
  ],
  examples: ["sbx update", "sbx update --assets --manifest file:///srv/sbx/manifest.json"],
  async run(args) {
    requireTogether(args, "manifest", "assets");
    requireTogether(args, "arch", "assets");
    for (const name of ["manifest-hash", "mirror"]) requireTogether(args, name, "manifest");
    return await (args.has("manifest") ? updateAssets(args) : updateEverything(args));
  },
};

/** @throws {SbxError} `usage.invalid`: the first option was given without the second */
function requireTogether(args: Arguments, option: string, other: string): void {
  if (!args.has(option) || args.has(other)) return;
  throw usageError(install, `--${option} needs --${other}`, "sbx update --help shows the options");
}

export const command: CommandGroup = {
  name: "update",
  summary: "update sbx, profiles and images, or check for updates",
  fallback: "install",
  subcommands: [
    install,
    {
      name: "update check",
      usage: "[--json]",
      summary: "ask the release channel for new, deprecated and revoked releases; nothing is installed",
      options: [JSON_OPTION],
      examples: ["sbx update check"],
      run: (args) => show(args, "POST", "/update/check"),
    },
    {
      name: "update status",
      usage: "[--json]",
      summary: "show the installed versions, their sources, the last check and the latest changes",
      options: [JSON_OPTION],
      examples: ["sbx update status"],
      run: (args) => show(args, "GET", "/update/status"),
    },
    {
      name: "update profiles",
      usage: "[ID…] [--allow-downgrade] [--json]",
      summary: "install new and newer profiles of the release channel, with their images",
      notes: ["Profiles that you changed are kept. Running VMs keep their profile."],
      options: [DOWNGRADE, JSON_OPTION],
      words: { min: 0, max: 64 },
      completes: ["profiles"],
      examples: ["sbx update profiles", "sbx update profiles code"],
      run: updateProfiles,
    },
    {
      name: "update program",
      usage: "[--rollback] [--allow-downgrade] [--json]",
      summary: "install the sbx of the release channel, where no package manager owns it",
      notes: [
        "Running services and VMs keep the program that they were started with. The previous program is kept beside it.",
      ],
      options: [{ name: "rollback", about: "put the previous program back" }, DOWNGRADE, JSON_OPTION],
      examples: ["sbx update program", "sbx update program --rollback"],
      run: updateProgram,
    },
    restart,
    {
      name: "update pins",
      usage: "PROFILE [--json]",
      summary: "fetch and verify the files that your profile pins by address",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["profiles"],
      examples: ["sbx update pins mine"],
      run: fetchPins,
    },
  ],
};

async function show(args: Arguments, method: "GET" | "POST", path: string): Promise<number> {
  const client = await connect();
  const status = await client.json<UpdateStatus>(method, path);
  await (args.has("json") ? printJson(status) : print(formatUpdates(status)));
  return 0;
}

const onWait = () => note("another update is under way; this one waits for it");

async function updateAssets(args: Arguments): Promise<number> {
  const { installAssets } = await import("../../../lib/release/asset/mod.ts");
  const { Progress } = await import("../../../lib/base/progress/mod.ts");
  const { useNetworkOf } = await import("../../../lib/home/mod.ts");
  const { recordChange } = await import("../../../lib/publish/update/mod.ts");
  await useNetworkOf(home());
  using progress = new Progress([{ name: "assets", weight: 1 }]);
  const allowDowngrade = args.has("allow-downgrade");
  const result = await installAssets({
    manifestUrl: args.text("manifest")!,
    manifestHash: args.text("manifest-hash"),
    mirrors: args.list("mirror"),
    allowDowngrade,
    home: home(),
    arch: archOf(args) ?? currentArch(),
    progress,
    onWait,
    record: ({ isDowngrade, ...change }) =>
      recordChange(home(), { what: "assets", ...change, ...(isDowngrade && { downgrade: true }) }),
  });
  if (args.has("json")) await printJson(result);
  else {
    await print(
      `assets ${result.version} of ${result.profile}: downloaded ${count(result.fetched.length, "file")}`,
    );
  }
  return 0;
}

async function updateEverything(args: Arguments): Promise<number> {
  const { updateAll } = await import("../../../lib/home/mod.ts");
  const { Progress } = await import("../../../lib/base/progress/mod.ts");
  const stages = ["program", "assets", "profiles"].map((name) => ({ name, weight: 1 }));
  const report = await (async () => {
    using progress = new Progress(stages);
    return await updateAll({
      home: home(),
      arch: archOf(args) ?? currentArch(),
      imagesOnly: args.has("assets"),
      allowDowngrade: args.has("allow-downgrade"),
      progress: countingOnly(progress),
      onWait,
    });
  })();
  if (args.has("json")) await printJson(report);
  else {
    for (const result of report.updates) await print(formatResult(result));
    for (const sentence of report.accepted) await print(`accepted as a downgrade: ${sentence}`);
    if (report.channel === undefined && !args.has("assets")) {
      note(
        "no release channel is configured for profiles and sbx itself: SBX_RELEASE_CHANNELS_URL names one",
      );
    }
  }
  return report.updates.some(({ state }) => state === "failed") ? 1 : 0;
}

/** Drops stages that count nothing: with several images, each begins one. */
function countingOnly(progress: ProgressSink): ProgressSink {
  return {
    stage: (name, total = 0) => total > 0 && progress.stage(name, total),
    advance: (units) => progress.advance(units),
  };
}

const NOUNS: Record<UpdateResult["what"], string> = {
  channel: "channel",
  program: "sbx",
  rules: "rules of the fleet's channel",
  image: "image",
  profile: "profile",
};
const STATES: Record<UpdateResult["state"], string> = {
  installed: "installed",
  newest: "is the newest",
  kept: "kept",
  available: "is available",
  failed: "FAILED",
};

function formatResult({ what, name, version, from, state, reason, hint }: UpdateResult): string {
  const subject = [NOUNS[what], name, version].filter(Boolean).join(" ");
  const before = from ? `; it was ${from}` : "";
  return `${subject}: ${STATES[state]}${before}${reason ? `: ${reason}` : ""}${hint ? `\n  ${hint}` : ""}`;
}

async function updateProfiles(args: Arguments): Promise<number> {
  const { updateFromChannel } = await import("../../../lib/home/mod.ts");
  const { Progress } = await import("../../../lib/base/progress/mod.ts");
  using progress = new Progress([{ name: "profiles", weight: 1 }]);
  const result = await updateFromChannel({
    home: home(),
    ids: args.words,
    allowDowngrade: args.has("allow-downgrade"),
    progress,
    onWait,
  });
  if (args.has("json")) await printJson(result);
  else {
    for (const { id, revision, state } of result.profiles) {
      const what = state === "yours"
        ? "kept: you changed it"
        : state === "same"
        ? "is the newest"
        : "installed";
      await print(`profile ${id} ${revision}: ${what}`);
    }
    if (result.sbx) {
      await print(
        `sbx ${result.sbx} is available: sbx update program installs it, or the package manager that sbx came with`,
      );
    }
    for (const sentence of result.accepted) await print(`accepted as a downgrade: ${sentence}`);
  }
  return 0;
}

async function updateProgram(args: Arguments): Promise<number> {
  const { updateProgram } = await import("../../../lib/home/mod.ts");
  const { Progress } = await import("../../../lib/base/progress/mod.ts");
  using progress = new Progress([{ name: "program", weight: 1 }]);
  const result = await updateProgram({
    home: home(),
    allowDowngrade: args.has("allow-downgrade"),
    rollback: args.has("rollback"),
    progress,
    onWait,
  });
  if (result.unasked !== undefined) {
    note(`the channel could not be asked whether sbx ${result.to} was revoked since: ${result.unasked}`);
  }
  if (args.has("json")) await printJson(result);
  else if (!result.changed) await print(`sbx ${result.to} is the newest`);
  else {
    await print(`sbx ${result.from ? `${result.from} → ` : ""}${result.to} at ${result.path}`);
    await print(
      "services and VMs that run keep the old one: sbx stop, and the next command starts the new service",
    );
    for (const sentence of result.accepted) await print(`accepted as a downgrade: ${sentence}`);
  }
  return 0;
}

async function fetchPins(args: Arguments): Promise<number> {
  const { updatePins } = await import("../../../lib/home/mod.ts");
  const { Progress } = await import("../../../lib/base/progress/mod.ts");
  using progress = new Progress([{ name: "profiles", weight: 1 }]);
  const [id] = args.words;
  const fetched = await updatePins({ home: home(), id, progress, onWait });
  await (args.has("json")
    ? printJson({ profile: id, fetched })
    : print(`profile ${id}: downloaded ${count(fetched.length, "file")}`));
  return 0;
}

/** Text of `sbx update status` and `sbx update check`. */
export function formatUpdates(status: UpdateStatus): string {
  return pairs([
    ...updateLines(status),
    ...status.history.map(({ at, what, profile, from, to, source, downgrade }): [string, string] => [
      "change",
      `${at} ${what}${profile === undefined ? "" : ` of ${profile}`}: ${
        from ? `${from} → ` : ""
      }${to} from ${source}${downgrade ? ", a downgrade that was allowed" : ""}`,
    ]),
  ]);
}

/** Lines about updates, for `sbx status` too. */
export function updateLines(
  { version, standing, source, schedule, last_check, assets, problems }: UpdateStatus,
): [string, string][] {
  const lines: [string, string][] = [["sbx", `${version}${standing ? `, ${standing}` : ""}`]];
  for (const each of assets) lines.push(["manifest", formatAssets(each)]);
  if (source) {
    lines.push(["channel", `${source.channel} of ${source.url}${source.is_corps ? ", named by corp" : ""}`]);
    if (schedule) {
      lines.push([
        "checks",
        schedule.interval_secs
          ? `every ${Math.round(schedule.interval_secs / 360) / 10} h (${schedule.reason})`
          : schedule.reason,
      ]);
    }
    lines.push(["last check", formatCheck(last_check)]);
  } else lines.push(["channel", "none is configured"]);
  for (const problem of problems) lines.push(["problem", problem]);
  return lines;
}

function formatAssets(each: UpdateStatus["assets"][number]): string {
  const from = each.source
    ? `${each.origin} ${each.package_version ?? ""} from ${each.source}`.replace("  ", " ")
    : "put there by hand";
  const notes = [each.is_corps ? "corp's" : "", each.deprecated ? "DEPRECATED" : ""].filter(Boolean);
  return [`${each.profile_id} ${each.version} blake3:${each.manifest_blake3}`, from, ...notes].join(", ");
}

function formatCheck(check: UpdateStatus["last_check"]): string {
  if (!check) return "never; sbx update check";
  const { at, problem, release, status, sbx, profiles = [] } = check;
  if (problem !== undefined) return `${at} FAILED: ${problem}`;
  const fresh = profiles.filter(({ state }) => state === "new" || state === "newer").map(({ id, revision }) =>
    `${id} ${revision}`
  );
  return [
    `${at} release ${release} (${status})`,
    ...(sbx ? [`sbx ${sbx} is available`] : []),
    fresh.length > 0
      ? `profiles to install: ${fresh.join(", ")} (sbx update profiles)`
      : "profiles are up to date",
  ].join("; ");
}
