/**
 * Zod schemas of a decision record (docs/design/contracts/05-policy.md §5), for the API; the engine makes
 * records as plain data.
 */
import { z } from "zod";
import { AnsweredBy, AskReach } from "../ask/schema.ts";
import { PROTOCOLS } from "../engine/rule_term.ts";

/** Field tested by the deciding rule, with the event's value; long text is truncated. */
export const MatchedField = z.strictObject({ path: z.string(), value: z.unknown() });

/** Rule that failed to match by few clauses. */
export const NearMiss = z.strictObject({
  rule_id: z.string(),
  failed: z.string().describe("first clause that is false for this event, as it was written"),
  path: z.string(),
  value: z.unknown().optional().describe("the event's value, if present"),
});

/** Change made to the event. */
export const AppliedRewrite = z.strictObject({ rule_id: z.string(), op: z.string(), path: z.string() });

/** Deciding rule. */
export const DecidingRule = z.strictObject({
  id: z.string(),
  name: z.string(),
  layer: z.enum(["corp", "profile", "default", "none"]),
  file: z.string().optional(),
  line: z.int().optional(),
  reason: z.string().optional(),
});

/** Outcome of an ask. */
export const Answered = z.strictObject({
  status: z.enum(["allowed", "denied", "expired"]),
  ask_id: z.string().describe("the ask of this event, or an earlier one whose answer covers it"),
  at: z.iso.datetime(),
  waited_ms: z.number().describe("time from the ask to the answer"),
  scope: z.enum(["once", "session", "minutes"]).optional(),
  minutes: z.number().optional(),
  of: AskReach.optional().describe(
    "the answer was for the whole host, the method at it, or the path and below",
  ),
  path: z.string().optional().describe("folder of the path that an answer is for"),
  open: z.literal(true).optional().describe(
    "the guest was answered before the person: the ask waits for the next event like it",
  ),
  by: AnsweredBy.optional().describe("who answered"),
  by_rule: z.string().optional().describe("rule that decided when the rules changed, in place of a person"),
});

/** Decision record. */
export const Decision = z.strictObject({
  event_id: z.string(),
  decision: z.enum(["allow", "ask", "block"]),
  rule: DecidingRule,
  matched_fields: z.array(MatchedField).describe("values are cut after 256 characters"),
  rewrites: z.array(AppliedRewrite),
  evaluated: z.int().describe("rules whose expression was evaluated"),
  near_misses: z.array(NearMiss).describe("at most 3; failed: the clause as written"),
  protocol: z.enum(PROTOCOLS).optional().describe("protocol that the connection is held to"),
  remedy: z.string().optional().describe("smallest change that would allow the event; only on a denial"),
  answered: Answered.optional().describe("answer to the ask of this event; expired: no answer came in time"),
});
