import type { ProfileInfo, ProfileList } from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { isSemVer } from "../../../lib/base/semver/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs, table } from "../output.ts";

export const command: CommandGroup = {
  name: "profile",
  summary: "list, show and copy the profiles of VMs",
  subcommands: [
    {
      name: "profile list",
      usage: "[--json]",
      summary: "list the profiles, including invalid ones",
      options: [JSON_OPTION],
      examples: ["sbx profile list"],
      run: list,
    },
    {
      name: "profile info",
      usage: "ID [--json]",
      summary: "show a profile and its OBOM",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["profiles"],
      examples: ["sbx profile info code"],
      run: (args) => info(args.words[0], args),
    },
    {
      name: "profile copy",
      usage: "ID NEW_ID [--json]",
      summary: "create a profile as a copy of another",
      options: [JSON_OPTION],
      words: { min: 2, max: 2 },
      completes: ["profiles", []],
      examples: ["sbx profile copy code mine"],
      run: (args) => copy(args.words[0], args.words[1], args),
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const answer = await (await connect()).json<ProfileList>("GET", "/profiles/list");
  if (args.has("json")) {
    await printJson(answer);
    return 0;
  }
  const rows = answer.profiles.map(({ id, name, revision, source, compatible, min_sbx_version }) => [
    id,
    name,
    revision,
    source,
    compatible ? "" : formatMinimum(min_sbx_version!),
  ]);
  await print(table(["PROFILE", "NAME", "REVISION", "FROM", ""], rows));
  for (const { id, error } of answer.broken) note(`invalid profile ${id}: ${error}`);
  return 0;
}

/** Reason why a profile is not compatible. */
function formatMinimum(version: string): string {
  return isSemVer(version)
    ? `needs sbx ${version}`
    : `its min_sbx_version is not a version: ${JSON.stringify(version)}`;
}

async function info(id: string, args: Arguments): Promise<number> {
  const answer = await (await connect()).json<
    ProfileInfo
  >(
    "GET",
    `/profiles/${segment(id, "profile")}/info`,
  );
  if (args.has("json")) {
    await printJson(answer);
    return 0;
  }
  const { profile, obom } = answer;
  await print(pairs([
    ["profile", profile.id],
    ["name", profile.name],
    ["description", profile.description],
    ["revision", profile.revision],
    ["from", profile.source],
    ["compatible", profile.compatible ? "yes" : `no, ${formatMinimum(profile.min_sbx_version!)}`],
    ["rules", `${profile.rule_count} of the profile, ${profile.default_rule_count} defaults`],
    ["MCP servers", String(profile.mcp_server_count)],
    ["packs", String(profile.pack_count)],
    ["OBOM", obom && `${obom.name}, ${obom.hash}, by ${obom.generator} ${obom.generator_version}`],
    ["problem", obom?.problem],
  ]));
  return 0;
}

async function copy(id: string, newId: string, args: Arguments): Promise<number> {
  const { copyProfile } = await import("../../../lib/config/profile/mod.ts");
  const path = await copyProfile(home(), id, newId);
  if (args.has("json")) await printJson({ id: newId, path });
  else await print(`created ${path}; sbx create NAME --profile ${newId} creates a VM from it`);
  return 0;
}
