import type { ProfileList } from "../../../lib/api/profile.ts";
import { segment } from "../../../lib/client/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { note, pairs, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "profile",
  usage: "list | info ID | copy ID NEW_ID [--json]",
  summary: "the profiles that VMs are made from",
  options: [JSON_OPTION],
  words: { min: 1, max: 3 },
  examples: ["sbx profile list", "sbx profile info code", "sbx profile copy code mine"],
  async run(given) {
    const [verb, id, newId] = given.words;
    if (verb === "list" && id === undefined) return await list(given);
    if (verb === "info" && id !== undefined && newId === undefined) return await info(id, given);
    if (verb === "copy" && newId !== undefined) return await copy(id, newId, given);
    throw usage(command, `sbx profile takes ${command.usage}`);
  },
};

async function list(given: Given): Promise<number> {
  const answer = await (await connect()).json<ProfileList>("GET", "/profiles/list");
  if (given.on("json")) {
    await printJson(answer);
    return 0;
  }
  const rows = answer.profiles.map(({ id, name, revision, source, compatible, min_sbx_version }) => [
    id,
    name,
    revision,
    source,
    compatible ? "" : `needs sbx ${min_sbx_version}`,
  ]);
  await print(table(["PROFILE", "NAME", "REVISION", "FROM", ""], rows));
  for (const { id, error } of answer.broken) note(`broken: ${id}: ${error}`);
  return 0;
}

async function info(id: string, given: Given): Promise<number> {
  const answer = await (await connect()).json<
    { profile: ProfileList["profiles"][0]; obom?: Record<string, unknown> }
  >(
    "GET",
    `/profiles/${segment(id, "profile")}/info`,
  );
  if (given.on("json")) {
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
    ["compatible", profile.compatible ? "yes" : `no, it needs sbx ${profile.min_sbx_version}`],
    ["rules", `${profile.rule_count} of its own, ${profile.default_rule_count} by default`],
    ["MCP servers", String(profile.mcp_server_count)],
    ["packs", String(profile.pack_count)],
    ["OBOM", obom && `${obom.name}, ${obom.hash}, by ${obom.generator} ${obom.generator_version}`],
  ]));
  return 0;
}

/** A profile of one's own to change, made of another. */
async function copy(id: string, newId: string, given: Given): Promise<number> {
  const { copyProfile } = await import("../../../lib/profile/mod.ts");
  const path = await copyProfile(home(), id, newId);
  if (given.on("json")) await printJson({ id: newId, path });
  else await print(`${path} is yours to change; sbx create --profile ${newId} makes a VM of it`);
  return 0;
}
