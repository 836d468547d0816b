import type { DetectionList } from "../../../lib/api/detection.ts";
import type { Client } from "../../../lib/client/mod.ts";
import type { DetectionIr, IrRule } from "../../../lib/detection/mod.ts";
import type { LabEvent, LabReport } from "../../../lib/lab/mod.ts";
import { usage } from "../arguments.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eventPages } from "../event_pages.ts";
import { evidenceTable } from "../evidence.ts";
import { counted, note, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "lab",
  usage: "SESSION… --pack FILE [--rules FILE] [--corp FILE] [--baseline live|FILE]",
  summary:
    "try detections and rules on recorded sessions: what they would newly find, no longer find, and have blocked; exit code 1 if something is lost or blocked",
  options: [
    { name: "pack", value: "FILE", many: true, about: "a pack to try" },
    { name: "rules", value: "FILE", about: "rules of a profile to try" },
    { name: "corp", value: "FILE", about: "rules of corp to try" },
    { name: "baseline", value: "WHAT", about: "compare with the detections in force (live), or with a pack" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1000 },
  completesNames: true,
  examples: ["sbx lab demo --pack new.yaml --baseline live", "sbx lab demo --rules rules.toml --json"],
  async run(given) {
    const [{ runLab }, { loadPack }] = await Promise.all([
      import("../../../lib/lab/mod.ts"),
      import("../../../lib/detection/live/load.ts"),
    ]);
    const [rules, corp] = [given.text("rules"), given.text("corp")];
    if (given.list("pack").length === 0 && !rules && !corp) {
      throw usage(command, "there is nothing to try: give --pack or --rules");
    }
    const client = await connect();
    const baseline = given.text("baseline");
    const packs = await Promise.all(given.list("pack").map(async (path) => (await loadPack(path)).ir));
    const before = baseline === undefined
      ? []
      : baseline === "live"
      ? await livePacks(client)
      : [(await loadPack(baseline)).ir];
    const report = await runLab({
      sessions: given.words.map((id) => ({ id, events: eventsOf(client, id) })),
      packs,
      ...((rules || corp) && { rules: await rulesOf(rules, corp) }),
      baseline: { packs: before },
      onSession: (id) => note(`reading ${id}`),
    });
    await (given.on("json") ? printJson(report) : print(reportText(report)));
    return report.ok ? 0 : 1;
  },
};

async function* eventsOf(client: Client, id: string): AsyncGenerator<LabEvent> {
  for await (const page of eventPages(client, id, {})) yield* page as unknown as LabEvent[];
}

async function livePacks(client: Client): Promise<DetectionIr[]> {
  return await packsInForce((await client.json<DetectionList>("GET", "/detection")).rules);
}

/** Detections that are in force, as packs again: those of packs by their rules, those put in at runtime as they came. */
export async function packsInForce(views: DetectionList["rules"]): Promise<DetectionIr[]> {
  const { irOfInput } = await import("../../../lib/detection/live/overlay.ts");
  const packs = Map.groupBy(views.filter(({ scope }) => scope !== "runtime"), ({ pack_id }) => pack_id);
  const overlays = views.filter(({ scope, enabled, compiled }) => scope === "runtime" && enabled && compiled);
  return [
    ...[...packs].map(([pack_id, views]): DetectionIr => ({
      schema: "sbx.detection.ir.v1",
      pack_id,
      pack_version: "live",
      pack_status: "active",
      owner: "user",
      rules: views.map(({ definition }) => definition as IrRule),
    })),
    ...await Promise.all(overlays.map(({ definition }) => irOfInput(definition))),
  ];
}

async function rulesOf(rules: string | undefined, corp: string | undefined) {
  const { readRules } = await import("../../../lib/policy/author/read.ts");
  return [...(rules ? await readRules(rules) : []), ...(corp ? await readRules(corp, ["corp"]) : [])];
}

function reportText({ session_count, event_count, rules, gained, lost, policy }: LabReport): string {
  const parts = [`${counted(event_count, "event")} of ${counted(session_count, "session")}`];
  if (rules.length) {
    const rows = rules.map(({ rule_id, baseline, candidate, gained, lost }) =>
      [rule_id, baseline, candidate, `+${gained}`, `-${lost}`].map(String)
    );
    parts.push(table(["RULE", "BEFORE", "NOW", "GAINED", "LOST"], rows));
  } else parts.push("the detections find the same as before");
  if (gained.rows.length) parts.push(`newly found:\n${evidenceTable(gained)}`);
  if (lost.rows.length) parts.push(`LOST:\n${evidenceTable(lost)}`);
  if (policy) {
    const changes = policy.changes.map(({ from, to, count }) => [from, to, String(count)]);
    parts.push(
      changes.length ? table(["DECIDED THEN", "WOULD BE", "EVENTS"], changes) : "the rules decide as before",
    );
    if (policy.blocked.rows.length) parts.push(`WOULD HAVE BEEN STOPPED:\n${evidenceTable(policy.blocked)}`);
    if (policy.released.rows.length) {
      parts.push(`would have gone through:\n${evidenceTable(policy.released)}`);
    }
    for (const { rule_id, event_id, message } of policy.failures) {
      parts.push(`${rule_id} failed on ${event_id}: ${message}`);
    }
  }
  return parts.join("\n\n");
}
