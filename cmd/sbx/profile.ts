import type { ProfileList } from "../../lib/api/profile.ts";
import { segment } from "../../lib/client/mod.ts";
import { usage } from "./arguments.ts";
import { type Command, type Given, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { note, pairs, print, printJson, table } from "./output.ts";

export const command: Command = {
  name: "profile",
  usage: "list | info ID [--json]",
  summary: "the profiles that VMs are made from",
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  examples: ["sbx profile list", "sbx profile info code"],
  async run(given) {
    const [verb, id] = given.words;
    if (verb === "list" && id === undefined) return await list(given);
    if (verb === "info" && id !== undefined) return await info(id, given);
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
