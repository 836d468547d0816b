import type { RuleList } from "../../../lib/api/policy.ts";
import { segment } from "../../../lib/client/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { note, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "policy",
  usage: "list [PROFILE] | lint [PROFILE] | test FILE [--rules FILE] [--corp FILE] [--junit FILE]",
  summary: "the rules in force with a profile, what the linter says of them, and tests of rules without a VM",
  options: [
    { name: "rules", value: "FILE", about: "test: the profile's rules" },
    { name: "corp", value: "FILE", about: "test: corp's rules" },
    { name: "junit", value: "FILE", about: "test: write a JUnit report too" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  examples: ["sbx policy list code", "sbx policy test rules_test.jsonl --rules rules.toml"],
  async run(given) {
    const [verb, what] = given.words;
    if (verb === "list") return await list(what ?? "code", given);
    if (verb === "lint") return await lint(what ?? "code", given);
    if (verb === "test" && what !== undefined) return await test(what, given);
    throw usage(command, `sbx policy takes ${command.usage}`);
  },
};

async function rulesOf(profile: string): Promise<RuleList> {
  return await (await connect()).json(
    "GET",
    `/profiles/${segment(profile, "profile")}/enforcement/rules/list`,
  );
}

async function list(profile: string, given: Given): Promise<number> {
  const answer = await rulesOf(profile);
  if (given.on("json")) await printJson(answer);
  else {
    const rows = answer.rules.map(({ layer, priority, action, id, match }) => [
      layer,
      String(priority),
      action,
      id,
      match.replaceAll(/\s+/g, " "),
    ]);
    await print(table(["LAYER", "PRIORITY", "ACTION", "RULE", "MATCH"], rows));
  }
  return 0;
}

/** Exit 1 when there is an error among the remarks; warnings are for people. */
async function lint(profile: string, given: Given): Promise<number> {
  const { lints } = await rulesOf(profile);
  const { lintText } = await import("../../../lib/policy/author/suite.ts");
  if (given.on("json")) await printJson({ lints });
  else await print(lints.length ? lints.map((each) => lintText(each as never)).join("\n") : "nothing to say");
  return lints.some(({ severity }) => severity === "error") ? 1 : 0;
}

/** Exit 1 when a test fails. */
async function test(path: string, given: Given): Promise<number> {
  const { failuresText, testFile } = await import("../../../lib/policy/author/suite.ts");
  const report = await testFile(path, { rules: given.text("rules"), corp: given.text("corp") });
  const file = given.text("junit");
  if (file) {
    const { junit } = await import("../../../lib/policy/author/fixture.ts");
    await Deno.writeTextFile(file, junit(report));
  }
  if (given.on("json")) await printJson({ schema: "sbx.policy-test.v1", ...report });
  else {
    for (const failure of failuresText(report)) note(failure);
    await print(`${report.passed} passed, ${report.failed} failed`);
  }
  return report.ok ? 0 : 1;
}
