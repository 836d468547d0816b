import type { DetectionList, EvidenceResult } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { type Compiled, type CompiledRule, packOfRules, withoutRules } from "../../../lib/detection/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { FILE_NOTE, RecordedEvents } from "../record/event_query.ts";
import { table, usageError } from "../output.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { LabReport } from "../../../lib/lab/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import type { Rule, RuleLayers } from "../../../lib/policy/mod.ts";

export const command: Command = {
  name: "lab",
  usage: "SESSION|FILE… --pack FILE [--rules FILE] [--corp FILE] [--baseline live|FILE]",
  summary: "replay recorded sessions with other detections and rules",
  notes: [
    "Shows matches gained and lost, and events newly blocked.",
    FILE_NOTE,
    "The exit code is 1 if a match is lost or an event is newly blocked.",
  ],
  options: [
    { name: "pack", value: "FILE", many: true, about: "a pack to evaluate" },
    { name: "rules", value: "FILE", about: "profile rules to evaluate" },
    { name: "corp", value: "FILE", about: "corp rules to evaluate, in place of the active ones" },
    {
      name: "baseline",
      value: "live|FILE",
      about: "compare with the active detections, to which packs are added (live), or with a pack",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1000 },
  completes: [{ either: ["sessions", "files"] }],
  examples: ["sbx lab demo --pack new.yaml --baseline live", "sbx lab demo --rules rules.toml --json"],
  async run(args) {
    const [{ runLab }, { loadPack }] = await Promise.all([
      import("../../../lib/lab/mod.ts"),
      import("../../../lib/detection/active/mod.ts"),
    ]);
    const [rules, corp] = [args.text("rules"), args.text("corp")];
    if (args.list("pack").length === 0 && !rules && !corp) {
      throw usageError(command, "missing option: give --pack, --rules or --corp");
    }
    const recorded = new RecordedEvents();
    const baseline = args.text("baseline");
    const packs = await Promise.all(args.list("pack").map(async (path) => (await loadPack(path)).ir));
    const baselinePacks = baseline === undefined
      ? []
      : baseline === "live"
      ? await fetchLivePacks(await recorded.client())
      : [(await loadPack(baseline)).ir];
    const report = await runLab({
      sessions: args.words.map((id) => ({ id, events: recorded.of(id) })),
      packs: baseline === "live" ? joinPacks(baselinePacks, packs) : packs,
      ...((rules || corp) && { rules: await readCandidates(rules, corp, await activeCorp()) }),
      baseline: { packs: baselinePacks },
      onSession: (id) => note(`reading ${id}`),
    });
    await (args.has("json") ? printJson(report) : print(formatReport(report)));
    return report.ok ? 0 : 1;
  },
};

async function fetchLivePacks(client: Client): Promise<Compiled[]> {
  return await packsInForce((await client.json<DetectionList>("GET", "/detection")).rules);
}

/**
 * Groups the active detections into packs, without rules that are off; detections added
 * at runtime keep their own form.
 */
export async function packsInForce(views: DetectionList["rules"]): Promise<Compiled[]> {
  const { irOfInput } = await import("../../../lib/detection/active/mod.ts");
  const packs = Map.groupBy(views.filter(({ scope }) => scope !== "runtime"), ({ pack_id }) => pack_id);
  const overlays = views.filter((view) =>
    view.scope === "runtime" && view.compiled && (view.enabled || view.off)
  );
  const off = views.flatMap(({ id, off, rules = [] }) => [
    ...off ? [id] : [],
    ...rules.flatMap((rule) => rule.off ? [rule.id] : []),
  ]);
  const grouped = [...packs].map(([pack_id, views]) => {
    const pack = packOfRules(pack_id, views.map(({ definition }) => definition as CompiledRule));
    return views[0].scope === "corp" ? pack : withoutRules([pack], off)[0];
  });
  const added = await Promise.all(overlays.map(({ definition }) => irOfInput(definition)));
  return [...grouped, ...withoutRules(added, off)];
}

/** Active packs with candidates added; a candidate replaces the pack of its id. */
export function joinPacks(active: readonly Compiled[], candidates: readonly Compiled[]): Compiled[] {
  const replaced = new Set(candidates.map(({ pack_id }) => pack_id));
  return [...active.filter(({ pack_id }) => !replaced.has(pack_id)), ...candidates];
}

/** Corp's rules in force on this machine. */
async function activeCorp(): Promise<readonly Rule[]> {
  const { corpLayer, openCorp } = await import("../../../lib/home/mod.ts");
  const store = openCorp(home());
  await store.load();
  return (await corpLayer(store)).rules;
}

/**
 * Reads candidate rules.
 *
 * @param rules, corp their files
 * @param active corp's rules in force, which hold where neither file has any
 */
export async function readCandidates(
  rules: string | undefined,
  corp: string | undefined,
  active: readonly Rule[] = [],
): Promise<RuleLayers> {
  const { readRules } = await import("../../../lib/policy/author/mod.ts");
  const own = rules ? await readRules(rules) : [];
  const isCorp = ({ layer }: Rule) => layer === "corp";
  const given = [...own.filter(isCorp), ...corp ? await readRules(corp, ["corp"]) : []];
  return {
    corp: { rules: given.length > 0 || corp ? given : active },
    profile: { rules: own.filter((rule) => !isCorp(rule)) },
  };
}

/** The effects of candidates, for people. */
export function formatReport({ session_count, event_count, rules, gained, lost, policy }: LabReport): string {
  return [
    `${count(event_count, "event")} of ${count(session_count, "session")}`,
    formatMatches(rules),
    ...formatSection("gained", gained),
    ...formatSection("LOST", lost),
    ...policy ? formatPolicy(policy) : [],
  ].join("\n\n");
}

function formatMatches(rules: LabReport["rules"]): string {
  if (rules.length === 0) return "no change in matches";
  const rows = rules.map(({ rule_id, baseline, candidate, gained, lost }) =>
    [rule_id, baseline, candidate, `+${gained}`, `-${lost}`].map(String)
  );
  return table(["RULE", "BEFORE", "NOW", "GAINED", "LOST"], rows);
}

function formatPolicy(
  { changes, guarded, asked, blocked, released, failures }: NonNullable<LabReport["policy"]>,
): string[] {
  const rows = changes.map(({ from, to, count }) => [from, to, String(count)]);
  return [
    rows.length ? table(["RECORDED DECISION", "NEW DECISION", "EVENTS"], rows) : "no change in decisions",
    ...guarded ? [`${count(guarded, "event")} decided by a guard or a budget, whatever the rules`] : [],
    ...asked ? [`${count(asked, "event")} asked about by the recorded rule: the recorded answer counts`] : [],
    ...formatSection("NEWLY BLOCKED", blocked),
    ...formatSection("newly allowed", released),
    ...failures.map(({ rule_id, event_id, message }) => `${rule_id} failed on ${event_id}: ${message}`),
  ];
}

/** Evidence under its title; empty without evidence. */
function formatSection(title: string, evidence: LabReport["gained"]): string[] {
  return evidence.rows.length ? [`${title}:\n${formatEvidence(evidence)}`] : [];
}

/** Formats evidence-diverse rows, with the number of matches they represent. */
export function formatEvidence(
  { total_matches, unique_evidence_matches, truncated, rows }: EvidenceResult,
): string {
  if (rows.length === 0) return "no matches";
  const cells = rows.map(({ event_ref, rule_id, matched_fields, outcome }) => [
    event_ref.event_id,
    rule_id,
    outcome.outcome,
    matched_fields.map(({ path, value }) => `${path} = ${JSON.stringify(value)}`).join(", ") ||
    (outcome.message ?? ""),
  ]);
  const total = `${
    count(total_matches, "match", "matches")
  }, ${unique_evidence_matches} with different evidence`;
  return `${table(["EVENT", "RULE", "OUTCOME", "EVIDENCE"], cells)}\n${total}${
    truncated ? "; truncated" : ""
  }`;
}
