import { SbxError } from "../../base/error/mod.ts";
import { SEVERITIES, type Severity } from "../../event/mod.ts";
import type { Hold, ResponseTable } from "./schema.ts";

export type ResponseAction = Hold["actions"][number]["action"];

/** The tables in force; each can only add to the other. */
export interface ResponseTerms {
  corp?: ResponseTable;
  profile?: ResponseTable;
}

/** An action, and who demands it. */
export type Demand = Pick<Hold["actions"][number], "action" | "by">;

/** The part of a finding that decides on its answer. */
interface Found {
  rule_id: string;
  severity: string;
}

/** Severities, the greatest first. */
const DOWNWARDS = SEVERITIES.toReversed();

/** Demands of sbx itself where the profile's table does not name the rule. */
const DEFAULTS: Readonly<Record<string, readonly ResponseAction[]>> = { "credential-decoy": ["block"] };

/** Demands for a finding, each action once: corp's demand counts more than the profile's. */
export function demandsOf({ corp, profile }: ResponseTerms, found: Found): Demand[] {
  const demands = new Map<ResponseAction, Demand["by"]>();
  const isNamed = profile?.rule !== undefined && Object.hasOwn(profile.rule, found.rule_id);
  const isDefault = !isNamed && Object.hasOwn(DEFAULTS, found.rule_id);
  for (const action of isDefault ? DEFAULTS[found.rule_id] : []) demands.set(action, "default");
  for (const action of actionsIn(profile, found)) demands.set(action, "profile");
  for (const action of actionsIn(corp, found)) demands.set(action, "corp");
  // Whatever stands still sends nothing either, also in the moment before it does.
  for (const action of ["suspend", "pause"] as const) {
    const by = demands.get(action);
    if (by !== undefined && demands.get("block") !== "corp") demands.set("block", by);
  }
  return [...demands].map(([action, by]) => ({ action, by }));
}

/** The actions of one table for a finding. */
export function actionsIn(
  table: ResponseTable | undefined,
  { rule_id, severity }: Found,
): readonly ResponseAction[] {
  if (!table) return [];
  if (table.rule && Object.hasOwn(table.rule, rule_id)) return table.rule[rule_id];
  const from = DOWNWARDS.indexOf(severity as Severity);
  for (const each of from < 0 ? [] : DOWNWARDS.slice(from)) {
    const actions = table.severity?.[each];
    if (actions) return actions;
  }
  return [];
}

/** True if the machine may not run until the hold is lifted. */
export function isStill(hold: Hold | undefined): boolean {
  return hold?.actions.some(({ action }) => action === "pause" || action === "suspend") ?? false;
}

const WORDS: Record<ResponseAction, string> = {
  snapshot: "a snapshot was ordered",
  ask: "its network asks first",
  block: "its network is blocked",
  pause: "it is paused",
  suspend: "it is suspended",
};

/** Most characters of a title that are shown. */
const TITLE_SHOWN = 200;

/** One line for people. */
export function holdLine(name: string, { actions, notes }: Hold): string {
  const { title, event_id } = actions[0].cause;
  const done = actions.map(({ action }) => WORDS[action]).join(", ");
  const more = notes.length > 0 ? `; ${notes.join("; ")}` : "";
  return `a finding holds it back: ${title.slice(0, TITLE_SHOWN)}: ${done}${more} ` +
    `(sbx why ${event_id} shows the record; sbx lift ${name} lifts it)`;
}

/**
 * Checks that a person may lift a hold: corp's part of it stays as long as corp.toml demands it.
 *
 * @throws {SbxError} `response.corp`
 */
export function requireLiftable(name: string, { actions }: Hold, corp: ResponseTable | undefined): void {
  for (const { by, cause } of actions) {
    if (by !== "corp" || actionsIn(corp, cause).length === 0) continue;
    throw new SbxError(
      "response.corp",
      `corp demands that "${name}" is held back after findings of ${cause.rule_id}, so it cannot be lifted here`,
      { hint: "your administrator can lift it: sbx corp info shows corp's rules" },
    );
  }
}
