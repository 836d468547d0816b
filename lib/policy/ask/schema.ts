/**
 * Zod schemas of an ask and its answer (docs/design/contracts/05-policy.md §5), for messages; the queue takes
 * them as plain data.
 */
import { z } from "zod";
import { LAYERS } from "../engine/rule_term.ts";
import { APPROVAL_MINUTES_MAX, COVERS_MAX } from "./limit.ts";

/** Reach of a lasting answer that is wider than events like the one asked about. */
export const AskReach = z.enum(["path", "method", "host"]);
export type AskReach = z.infer<typeof AskReach>;

/** Path of an answer that is for one: the request's own, or one of its folders. */
const AnswerPath = z.string().startsWith("/").max(COVERS_MAX);

/** One ask. */
export const Ask = z.strictObject({
  ask_id: z.string().describe("the event's id and the first 8 characters of the digest"),
  digest: z.string().describe("BLAKE3 of the ask and its event, which an answer repeats"),
  event_id: z.string(),
  session_id: z.string(),
  event_type: z.string(),
  subject: z.string().describe("subject of the event on one line, cut where it is too long"),
  covers: z.string().optional().describe(
    "events that an answer for minutes or the session covers; absent: this event only",
  ),
  covers_host: z.string().optional().describe(
    "events that an answer for the whole host covers; absent: the event is of no host, or its name is too long",
  ),
  covers_path: z.string().optional().describe("events that an answer for the request's path covers"),
  covers_method: z.string().optional().describe("events that an answer for the request's method covers"),
  rule_id: z.string(),
  reason: z.string(),
  why: z.string().optional().describe(
    "words of a program in the VM that asks for access; absent: no program has asked with a reason",
  ),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime(),
  status: z.enum(["pending", "allowed", "denied", "expired"]),
  by_rule: z.string().optional().describe(
    "rule that decided the event when the rules changed, in place of a person",
  ),
});
export type Ask = z.infer<typeof Ask>;

/** An ask that outlives the machine of its VM, on the VM's disk. */
export const KeptAsk = z.strictObject({
  ask: Ask,
  layer: z.enum([...LAYERS, "none"]),
  key: z.string(),
  host: z.string().optional().describe("key of the whole host"),
  method: z.string().optional().describe("key of the method at its host"),
  paths: z.array(z.strictObject({ path: z.string(), key: z.string() })).optional().describe(
    "keys of the request's path and its folders",
  ),
  content: z.string().describe("BLAKE3 of the event as it is shown"),
  remaining_ms: z.number().nonnegative(),
});
export type KeptAsk = z.infer<typeof KeptAsk>;

/** The person and the program that answered an ask. */
export const AnsweredBy = z.strictObject({
  user: z.string().describe("user of the host"),
  client: z.string().describe("User-Agent of the request, cut to 128 characters"),
});
export type AnsweredBy = z.infer<typeof AnsweredBy>;

/** A person's answer to an ask. */
export const AskAnswer = z.strictObject({
  decision: z.enum(["allow", "deny"]),
  scope: z.enum(["once", "session", "minutes"]),
  minutes: z.number().positive().max(APPROVAL_MINUTES_MAX).optional().describe("required with scope minutes"),
  of: AskReach.optional().describe(
    "host: the answer covers all that the rule asks about the event's whole host; path: requests to its path and " +
      "below; method: requests of its method to the same scheme, host and port; not with scope once",
  ),
  path: AnswerPath.optional().describe(
    "with of path: a folder of the request's path; absent: the path itself",
  ),
});
export type AskAnswer = z.infer<typeof AskAnswer>;

/** An answer that covers further events. */
export const AskInForce = Ask.extend({
  answer: AskAnswer,
  answered_by: AnsweredBy.optional(),
  resolved_at: z.iso.datetime(),
  until: z.iso.datetime().optional().describe("absent: as long as the VM's session"),
});
export type AskInForce = z.infer<typeof AskInForce>;

/** Digest in an answer: it goes to no other ask than the one that was read. */
export const AskShown = z.strictObject({
  digest: z.string().describe("digest of the ask that the person read"),
});
