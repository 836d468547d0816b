import type { ChangeView, RuleChanges, RuleList, RuleUndone } from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { basename } from "node:path";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { brief, note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, UTC_NOTE } from "../output.ts";
import type { FileProblem } from "../../../lib/policy/author/mod.ts";
import type { Rule } from "../../../lib/policy/mod.ts";

const PROFILE_OPTION: Option = {
  name: "profile",
  value: "ID",
  about: "the rules of this profile",
  completes: "profiles",
};
const RULES_OPTION: Option = { name: "rules", value: "FILE", about: "rules of the profile" };
const CORP_OPTION: Option = { name: "corp", value: "FILE", about: "rules of corp" };

export const command: CommandGroup = {
  name: "policy",
  summary: "list, lint and test rules, and undo changes of them",
  subcommands: [
    {
      name: "policy list",
      usage: "[PROFILE] [--json]",
      summary: "list the active rules of a profile; default code",
      options: [JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["profiles"],
      examples: ["sbx policy list code"],
      run: (args) => list(args.words[0] ?? "code", args),
    },
    {
      name: "policy reload",
      usage: "VM",
      summary: "apply the current files of its profile to a running VM",
      options: [],
      words: { min: 1, max: 1 },
      completes: ["vms"],
      examples: ["sbx policy reload dev"],
      run: (args) => reload(args.words[0]),
    },
    {
      name: "policy changes",
      usage: "[PROFILE] [--json]",
      summary:
        "list the changes of rules and of detections put in at run time, newest first, with who made them",
      notes: ["--json has each rule before and after its change.", UTC_NOTE],
      options: [JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["profiles"],
      examples: ["sbx policy changes", "sbx policy changes mine --json"],
      run: (args) => changes(args.words[0], args),
    },
    {
      name: "policy undo",
      usage: "CHANGE [--json]",
      summary: "undo a change of a rule or detection, in running VMs too",
      notes: ["An undo is a change too, which can be undone."],
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["rule changes"],
      examples: ["sbx policy undo c3f2a90c1d7e"],
      run: (args) => undo(args.words[0], args),
    },
    {
      name: "policy lint",
      usage: "[PROFILE] [--profile ID] [--json]",
      summary: "lint the active rules of a profile",
      notes: ["The exit code is 1 if a remark is an error."],
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["profiles"],
      examples: ["sbx policy lint mine"],
      run: (args) => lint(args.text("profile") ?? args.words[0] ?? "code", args),
    },
    {
      name: "policy check",
      usage: "FILE|--profile ID [--json]",
      summary: "name every problem of a rule file or profile.toml, with line and column",
      notes: ["The exit code is 1 if the file has a problem."],
      options: [PROFILE_OPTION, JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["files"],
      examples: ["sbx policy check rules.toml", "sbx policy check --profile mine"],
      run: (args) => check(args.words[0], args),
    },
    {
      name: "policy test",
      usage: "FILE [--profile ID] [--rules FILE] [--corp FILE] [--junit FILE] [--json]",
      summary: "run given/when/then tests of rules without a VM",
      notes: [
        "With --profile the tests run under its rules and corp's, as a VM that starts now would have them.",
        "A line that is not a test fails by itself. The exit code is 1 if a test fails.",
      ],
      options: [
        PROFILE_OPTION,
        RULES_OPTION,
        CORP_OPTION,
        { name: "junit", value: "FILE", about: "also write a JUnit report" },
        JSON_OPTION,
      ],
      words: { min: 1, max: 1 },
      completes: ["files"],
      examples: [
        "sbx policy test rules_test.jsonl --profile mine",
        "sbx policy test rules_test.jsonl --rules rules.toml",
      ],
      run: (args) => test(args.words[0], args),
    },
  ],
};

async function fetchRules(profile: string): Promise<RuleList> {
  return await (await connect()).json(
    "GET",
    `/profiles/${segment(profile, "profile")}/enforcement/rules/list`,
  );
}

async function list(profile: string, args: Arguments): Promise<number> {
  const answer = await fetchRules(profile);
  if (args.has("json")) await printJson(answer);
  else {
    const oneLine = (match: string) => plain(match.replaceAll(/\s+/g, " "));
    const rows = answer.rules.map(({ layer, priority, action, id, match }) => [
      layer,
      String(priority),
      action,
      id,
      oneLine(match),
    ]);
    await print(table(["LAYER", "PRIORITY", "ACTION", "RULE", "MATCH"], rows));
    const projects = answer.vms.flatMap(({ name, project = [] }) =>
      project.map(({ id, action, match, line }) => [
        name,
        line === undefined ? ".sbx.toml" : `.sbx.toml:${line}`,
        action,
        `project.${id}`,
        oneLine(match),
      ])
    );
    if (projects.length > 0) {
      await print("\nbetween corp's and the profile's, by the project file of a running VM:");
      await print(table(["VM", "SOURCE", "ACTION", "RULE", "MATCH"], projects));
    }
    for (const { name, revision, outdated } of answer.vms) {
      if (!outdated) continue;
      note(
        `VM "${name}" still runs with revision ${revision} of the profile, not with these rules: ` +
          `sbx policy reload ${name} applies them`,
      );
    }
  }
  return 0;
}

async function reload(name: string): Promise<number> {
  const path = `/vms/${segment(name)}/policy/reload`;
  const { revision } = await (await connect()).json<{ revision: string }>("POST", path);
  await print(`${name} enforces revision ${revision} of its profile`);
  return 0;
}

async function changes(profile: string | undefined, args: Arguments): Promise<number> {
  const query = profile === undefined ? "" : `?profile=${encodeURIComponent(profile)}`;
  const answer = await (await connect()).json<RuleChanges>("GET", `/enforcement/changes${query}`);
  if (args.has("json")) await printJson(answer);
  else if (answer.changes.length === 0) await print("no changes of rules");
  else {
    const rows = answer.changes.map((change) => {
      const { change_id, at, by } = change;
      return [change_id, at, ...subjectOf(change), whatOf(change), `${by.user} (${by.client})`];
    });
    await print(table(["CHANGE", "TIME", "PROFILE", "RULE", "WHAT", "BY"], rows));
  }
  return 0;
}

/** `edit: allow to block`, and the change that it reverts. */
function whatOf(change: ChangeView): string {
  const { what, undoes } = change;
  const actions = change.kind === "rule" ? [change.before?.action, change.after?.action] : [];
  const shown = [...new Set(actions.filter((action) => action !== undefined))].join(" to ");
  return `${what}${shown && `: ${shown}`}${undoes === undefined ? "" : `, undoes ${undoes}`}`;
}

/** The profile of a rule, and the rule; of a detection, no profile. */
function subjectOf(change: ChangeView): [string, string] {
  return change.kind === "rule"
    ? [change.profile_id, change.rule_id]
    : ["", `detection ${change.detection_id}`];
}

async function undo(id: string, args: Arguments): Promise<number> {
  const path = `/enforcement/changes/${encodeURIComponent(id)}/undo`;
  const { change } = await (await connect()).json<RuleUndone>("POST", path);
  if (args.has("json")) await printJson({ change: change ?? null });
  else if (!change) await print("nothing to undo: it is already as before the change");
  else {
    const [profile, subject] = subjectOf(change);
    const whole = profile === "" ? subject : `rule "${subject}" of profile "${profile}"`;
    await print(`${whole}: ${change.what}, active in running VMs (${change.change_id})`);
  }
  return 0;
}

/** @returns exit code 1 if a remark is an error; warnings do not count */
async function lint(profile: string, args: Arguments): Promise<number> {
  const { lints } = await fetchRules(profile);
  const { formatLint } = await import("../../../lib/policy/author/mod.ts");
  if (args.has("json")) await printJson({ lints });
  else await print(lints.length ? lints.map((each) => formatLint(each as never)).join("\n") : "no remarks");
  return lints.some(({ severity }) => severity === "error") ? 1 : 0;
}

/** @returns exit code 1 if a test fails */
async function test(path: string, args: Arguments): Promise<number> {
  const { formatFailures, runTestFile } = await import("../../../lib/policy/author/mod.ts");
  const [profile, rules, corp] = ["profile", "rules", "corp"].map((name) => args.text(name));
  if (profile !== undefined && (rules ?? corp) !== undefined) {
    throw new SbxError(
      "usage.invalid",
      "--profile has corp's rules too, so it takes neither --rules nor --corp",
      {
        hint: "sbx policy test FILE --profile ID",
      },
    );
  }
  const tested = profile === undefined ? { rules, corp } : await policyOfProfile(profile);
  const report = await runTestFile(path, tested);
  const file = args.text("junit");
  if (file) {
    const { junitOf } = await import("../../../lib/policy/author/mod.ts");
    await Deno.writeTextFile(file, junitOf(report));
  }
  if (args.has("json")) await printJson({ schema: "sbx.policy-test.v1", ...report });
  else {
    if (!report.ok) note(brief(formatFailures(report).join("\n")));
    await print(`${report.passed} passed, ${report.failed} failed`);
  }
  return report.ok ? 0 : 1;
}

/** Policy of a VM of this profile that would start now. */
async function policyOfProfile(id: string) {
  const [{ corpLayer, openCorp, profileLayer }, { loadProfile }, { compileLayers }] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/config/profile/mod.ts"),
    import("../../../lib/policy/mod.ts"),
  ]);
  const store = openCorp(home());
  await store.load();
  const [profile, corp] = await Promise.all([
    loadProfile(home(), id).then((found) => profileLayer(found, store)),
    corpLayer(store),
  ]);
  return compileLayers({ corp, profile });
}

/** Problems of a profile's descriptors of gRPC, and of the rules on messages. */
async function messageProblems(text: string, path: string, rules: readonly Rule[]): Promise<FileProblem[]> {
  const [{ descriptorsOf, fieldProblems }, { ProfileFile }, { parseToml }] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/config/profile/mod.ts"),
    import("../../../lib/base/toml/mod.ts"),
  ]);
  const document = parseToml(text, path);
  const { grpc } = ProfileFile.parse(document.value);
  try {
    const descriptors = await descriptorsOf({ ...grpc && { grpc }, path });
    return (await fieldProblems(rules, descriptors)).map(({ rule, message }) => ({
      file: path,
      ...document.positionOf(["profiles", "rules", rule.id, "match"]),
      rule_id: rule.id,
      message,
    }));
  } catch (error) {
    const { message } = asSbxError(error, `reading the descriptors of ${path}`);
    return [{ file: path, ...document.positionOf(["grpc"]), message }];
  }
}

/** @returns exit code 1 if the file has a problem */
async function check(file: string | undefined, args: Arguments): Promise<number> {
  const id = args.text("profile");
  if ((file === undefined) === (id === undefined)) {
    throw new SbxError("usage.invalid", "name one rule file, or one profile", {
      hint: "sbx policy check FILE, or sbx policy check --profile ID",
    });
  }
  const [{ checkRuleText, formatProblem }, { BUILTIN_PROFILES, ProfileFile, profilePath }, { readText }] =
    await Promise.all([
      import("../../../lib/policy/author/mod.ts"),
      import("../../../lib/config/profile/mod.ts"),
      import("../../../lib/base/toml/mod.ts"),
    ]);
  const own = file ?? profilePath(home(), id!);
  const isOwn = file !== undefined || await Deno.lstat(own).then(() => true, () => false);
  const path = isOwn ? own : `built-in profile ${id}`;
  const text = isOwn ? await readText(own) : BUILTIN_PROFILES.get(id!);
  if (text === undefined) {
    throw new SbxError("profile.not_found", `there is no profile ${JSON.stringify(id)}`, {
      hint: "sbx profile list shows the existing ones",
    });
  }
  const isProfile = id !== undefined || basename(path) === "profile.toml";
  const { problems, rules } = checkRuleText(text, path, isProfile ? ProfileFile : undefined);
  if (isProfile && problems.length === 0) problems.push(...await messageProblems(text, path, rules));
  const ok = problems.length === 0;
  if (args.has("json")) {
    await printJson({ schema: "sbx.policy-check.v2", ok, path, rule_count: rules.length, problems });
  } else if (ok) await print(`${path}: ${count(rules.length, "rule")}, no problems`);
  else note(brief(problems.map(formatProblem).join("\n")));
  return ok ? 0 : 1;
}
