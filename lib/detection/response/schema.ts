/** Schemas of the answers to findings, for profiles, corp.toml, contracts and the API. */
import { z } from "zod";
import { SEVERITIES } from "../../event/mod.ts";

/** Answers, in the order in which they are carried out. */
export const RESPONSE_ACTIONS = ["snapshot", "ask", "block", "pause", "suspend"] as const;
/** Most rules that a table names (docs/design/contracts/14-limits.md §14). */
const RULES_MAX = 256;

const Actions = z.array(z.enum(RESPONSE_ACTIONS)).max(RESPONSE_ACTIONS.length).refine(
  (actions) => new Set(actions).size === actions.length,
  "must name each action once",
);

/**
 * `[detection.response]` of a profile or of corp.toml (docs/design/contracts/06-detection.md §6, "Answers").
 */
export const ResponseTable = z.strictObject({
  /** an entry holds for higher severities too, as far as they have none */
  severity: z.partialRecord(z.enum(SEVERITIES), Actions).optional(),
  /** by the id of a rule; within one table it decides over the severity */
  rule: z.record(z.string().min(1).max(256), Actions).refine(
    (rules) => Object.keys(rules).length <= RULES_MAX,
    `must have at most ${RULES_MAX} rules`,
  ).optional(),
});
export type ResponseTable = z.output<typeof ResponseTable>;

/** The finding that something was done about. */
const Cause = z.strictObject({
  finding_id: z.string(),
  event_id: z.string().describe("sbx why shows it"),
  rule_id: z.string(),
  severity: z.enum(SEVERITIES),
  title: z.string(),
});

/** Answers that hold a VM back until a person lifts them. */
export const Hold = z.strictObject({
  since_unix_ms: z.int(),
  actions: z.array(z.strictObject({
    action: z.enum(RESPONSE_ACTIONS),
    by: z.enum(["corp", "profile", "default"]).describe("who demands it; default: sbx itself"),
    cause: Cause,
  })).max(RESPONSE_ACTIONS.length),
  notes: z.array(z.string()).describe("ids of snapshots, and answers that were not possible"),
});
export type Hold = z.output<typeof Hold>;
