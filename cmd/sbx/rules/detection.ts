import type {
  DetectionList,
  DetectionView,
  EvidenceResult,
  OverlayRemoved,
  OverlaySaved,
  RuleSwitched,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { formatEvidence } from "./lab.ts";
import { rulesOf } from "../../../lib/detection/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, usageError } from "../output.ts";

/** Most rows of a hunt (docs/design/contracts/06-detection.md §6). */
export const ROWS_MAX = 1000;

const HUNT: Command = {
  name: "detection hunt",
  usage: "SESSION --pack FILE [--limit N] [--json]",
  summary: "evaluate a pack over the record of a session",
  notes: ["The exit code is 0 with or without matches."],
  options: [
    { name: "pack", value: "FILE", about: "the pack or Sigma rules to evaluate" },
    { name: "limit", value: "N", about: "most rows of different evidence; default 100" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  completes: ["sessions"],
  examples: ["sbx detection hunt demo --pack exfiltration.yaml"],
  run: hunt,
};

const DISABLE: Command = {
  name: "detection disable",
  usage: "ID [--reason TEXT] [--json]",
  summary: "switch off a pack added at run time, or a rule of any pack",
  notes: [
    "A rule needs a reason. It is in ~/.sbx/detection/disabled.toml, for a later review.",
    "Rules of corp's packs stay on. Running VMs take the change at once.",
  ],
  options: [
    { name: "reason", value: "TEXT", about: "why the rule is switched off" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: [
    "sbx detection disable corp.exfiltration",
    'sbx detection disable paste-site --reason "our own paste server"',
  ],
  run: (args) => enable(args.words[0], false, args),
};

export const command: CommandGroup = {
  name: "detection",
  summary: "list, add, remove and switch detections, hunt in one session",
  subcommands: [
    {
      name: "detection list",
      usage: "[--json]",
      summary: "list the active detections with their match counts",
      options: [JSON_OPTION],
      examples: ["sbx detection list"],
      run: list,
    },
    {
      name: "detection add",
      usage: "PACK_FILE|RULES [--replace] [--placeholders FILE] [--json]",
      summary: "add a pack, or Sigma rules, to all running and future VMs",
      notes: [
        "RULES is a YAML file of Sigma rules, or a folder of them; their id is sigma. and its name.",
        "Rules that do not compile are left out, each with the reason.",
      ],
      options: [
        { name: "replace", about: "update the pack of this id that was added before" },
        { name: "placeholders", value: "FILE", about: "values of placeholders such as %Servers%" },
        JSON_OPTION,
      ],
      words: { min: 1, max: 1 },
      completes: ["files"],
      examples: ["sbx detection add exfiltration.yaml", "sbx detection add sigma/rules/linux --replace"],
      run: (args) => add(args.words[0], args),
    },
    {
      name: "detection remove",
      usage: "ID [--json]",
      summary: "remove a pack added with sbx detection add",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      completes: ["packs"],
      examples: ["sbx detection remove corp.exfiltration"],
      run: (args) => remove(args.words[0], args),
    },
    DISABLE,
    {
      name: "detection enable",
      usage: "ID [--json]",
      summary: "switch a disabled pack or rule on again",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      examples: ["sbx detection enable corp.exfiltration"],
      run: (args) => enable(args.words[0], true, args),
    },
    HUNT,
  ],
};

async function list(args: Arguments): Promise<number> {
  const answer = await (await connect()).json<DetectionList>("GET", "/detection");
  if (args.has("json")) await printJson(answer);
  else if (answer.rules.length === 0) await print("no active detections");
  else {
    const rows = answer.rules.flatMap((
      { id, pack_id, scope, enabled, compiled, off, rules = [], match_count, last_matched_event },
    ) => [
      [
        id,
        "",
        pack_id === id ? "" : `of ${pack_id}`,
        scope,
        compiled ? enabled ? "" : disabled(off) : "does not compile",
        String(match_count),
        last_matched_event ?? "",
      ],
      // The rules of a pack that was added, below it.
      ...rules.map((rule) => [
        `  ${rule.id}`,
        rule.severity,
        rule.title,
        scope,
        enabled && !rule.off ? "" : disabled(rule.off),
        String(rule.match_count),
        rule.last_matched_event ?? "",
      ]),
    ]);
    await print(table(["DETECTION", "LEVEL", "TITLE", "SCOPE", "", "MATCHES", "LAST EVENT"], rows));
  }
  return 0;
}

/** The state of a rule that is off, with the reason that its list has. */
function disabled(off: DetectionView["off"]): string {
  return off ? `disabled: ${off.reason}${off.by ? ` (${off.by}, ${off.at.slice(0, 10)})` : ""}` : "disabled";
}

async function add(path: string, args: Arguments): Promise<number> {
  const { body, summary } = await readDetections(path, args.text("placeholders"));
  const json = { ...body, replace: args.has("replace") };
  const answer = await (await connect()).json<OverlaySaved>("POST", "/detection", { json });
  if (args.has("json")) await printJson(answer);
  else await print(`added ${answer.rule.id}${summary}${formatReach(answer)}`);
  return answer.propagation.failed_session_count === 0 ? 0 : 1;
}

async function enable(id: string, enabled: boolean, args: Arguments): Promise<number> {
  const client = await connect();
  const { rules } = await client.json<DetectionList>("GET", "/detection");
  const overlay = rules.find((each) => each.id === id && each.scope === "runtime");
  const answer = overlay && !overlay.off
    ? await switchOverlay(client, overlay, enabled)
    : await switchRule(client, id, enabled, args.text("reason"));
  if (args.has("json")) await printJson(answer);
  else await print(`${enabled ? "enabled" : "disabled"} ${id}${formatReach(answer)}`);
  return answer.propagation.failed_session_count === 0 ? 0 : 1;
}

async function switchOverlay(
  client: Client,
  { definition }: DetectionView,
  enabled: boolean,
): Promise<OverlaySaved> {
  const isPack = (definition as { schema?: unknown }).schema === "sbx.detection-pack.v1";
  const key = isPack ? "pack" : "files" in (definition as object) ? "sigma" : "rule";
  const json = { [key]: definition, enabled, replace: true };
  return await client.json<OverlaySaved>("POST", "/detection", { json });
}

/** Switches a rule inside a pack. */
async function switchRule(
  client: Client,
  id: string,
  enabled: boolean,
  reason: string | undefined,
): Promise<RuleSwitched> {
  if (!enabled && !reason) {
    throw usageError(DISABLE, "a rule of a pack needs --reason TEXT to be switched off");
  }
  const json = { enabled, ...(!enabled && { reason }) };
  return await client.json<RuleSwitched>("POST", `/detection/rules/${segment(id)}/switch`, { json });
}

async function remove(id: string, args: Arguments): Promise<number> {
  const answer = await (await connect()).json<OverlayRemoved>(
    "DELETE",
    `/detection/${encodeURIComponent(id)}`,
  );
  if (args.has("json")) await printJson(answer);
  else await print(`removed ${id}${formatReach(answer)}`);
  return 0;
}

/** @returns exit code 0 with or without matches */
async function hunt(args: Arguments): Promise<number> {
  const path = args.text("pack");
  if (path === undefined) throw usageError(HUNT, "missing option --pack FILE");
  const limit = args.number("limit", { min: 1, max: ROWS_MAX });
  const json = { ...(await readDetections(path)).body, ...(limit !== undefined && { limit }) };
  const url = `/sessions/${segment(args.words[0])}/detection/hunt`;
  const result = await (await connect()).json<EvidenceResult>("POST", url, { json });
  await (args.has("json") ? printJson(result) : print(formatEvidence(result)));
  return 0;
}

/**
 * Reads a pack or Sigma rules, as a request has them, and counts the rules that are left out.
 *
 * @throws {SbxError} the errors of the file
 */
async function readDetections(
  path: string,
  placeholders?: string,
): Promise<{ body: Record<string, unknown>; summary: string }> {
  const { loadRules } = await import("../../../lib/detection/active/mod.ts");
  const rules = await loadRules(path, placeholders);
  if (!rules) return { body: { pack: await readPackFile(path) }, summary: "" };
  const { detectionError, formatProblem } = await import("../../../lib/detection/compile/mod.ts");
  if (!rules.ir) throw detectionError(rules.warnings);
  for (const problem of rules.warnings) note(formatProblem(problem));
  const { refused, not_applicable } = rules;
  const left = [
    ...refused ? [`${refused} left out`] : [],
    ...not_applicable ? [`${not_applicable} for other systems`] : [],
  ];
  const summary = `: ${count(rulesOf(rules.ir).length, "rule")}${left.length ? ` (${left.join(", ")})` : ""}`;
  return { body: { sigma: rules.source }, summary };
}

/**
 * Reads a pack from YAML, TOML or JSON. Compiles it too: the service gets no
 * file, so its errors have no lines.
 *
 * @throws {SbxError} the errors of the file
 */
async function readPackFile(path: string): Promise<unknown> {
  const [{ readPackData }, { loadPack }] = await Promise.all([
    import("../../../lib/detection/pack/mod.ts"),
    import("../../../lib/detection/active/mod.ts"),
  ]);
  await loadPack(path);
  return await readPackData(path);
}

function formatReach(
  { propagation: { target_count, failed_session_count } }: OverlayRemoved | OverlaySaved | RuleSwitched,
): string {
  return failed_session_count === 0
    ? ` in ${count(target_count, "running VM")}`
    : `; ${failed_session_count} of ${
      count(target_count, "running VM")
    } did not take the change; sbx status shows why`;
}
