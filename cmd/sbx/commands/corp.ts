import type { CorpInfo, CorpValidation } from "../../../lib/corp/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { note, pairs, print, printJson } from "../output.ts";

export const command: Command = {
  name: "corp",
  usage: "info | validate FILE [--json]",
  summary: "what the administrator's corp.toml says, and whether one is right",
  options: [JSON_OPTION],
  words: { min: 1, max: 2 },
  examples: ["sbx corp info", "sbx corp validate ./corp.toml"],
  async run(given) {
    const [verb, file] = given.words;
    if (verb === "info" && file === undefined) return await info(given);
    if (verb === "validate" && file !== undefined) return await validate(file, given);
    throw usage(command, `sbx corp takes ${command.usage}`);
  },
};

async function info(given: Given): Promise<number> {
  const corp = await (await connect()).json<CorpInfo>("GET", "/corp/info");
  if (given.on("json")) {
    await printJson(corp);
    return 0;
  }
  const ids = (of: { id: string }[]) => of.length ? of.map(({ id }) => id).join(" ") : undefined;
  await print(pairs([
    ["corp", corp.summary],
    ...(corp.error?.split("\n") ?? []).map((problem): [string, string] => ["error", problem]),
    ["locks", ids(corp.settings.filter(({ locked }) => locked))],
    ["hides", ids(corp.settings.filter(({ hidden }) => hidden))],
    ["switches off", ids(corp.settings.filter(({ enabled }) => enabled === false))],
    ["MCP servers", ids(corp.mcp_servers.filter(({ enabled }) => enabled))],
    ["MCP servers off", ids(corp.mcp_servers.filter(({ enabled }) => !enabled))],
    ["rules", corp.rule_count ? String(corp.rule_count) : undefined],
  ]));
  return 0;
}

/** Runs here and asks nothing of the service: an administrator checks a file before it is anywhere in force. */
async function validate(file: string, given: Given): Promise<number> {
  const { validateCorpFile } = await import("../../../lib/settings/mod.ts");
  const { checkCorp } = await import("../../../lib/service/value_check.ts");
  const result: CorpValidation & { warnings: string[] } = await validateCorpFile(file, checkCorp);
  if (given.on("json")) await printJson(result);
  else {
    for (const problem of result.problems) note(problem);
    for (const warning of result.warnings) note(`warning: ${warning}`);
    if (result.ok) await print(`${file} is right`);
  }
  return result.ok ? 0 : 1;
}
