/** Zod schemas of an ask and its answer (docs/contracts.md §5), for messages; the queue takes them as plain data. */
import { z } from "zod";
import { APPROVAL_MINUTES_MAX } from "./limit.ts";

/** One ask. */
export const Ask = z.strictObject({
  ask_id: z.string(),
  event_id: z.string(),
  session_id: z.string(),
  event_type: z.string(),
  subject: z.string().describe("subject of the event on one line"),
  rule_id: z.string(),
  reason: z.string(),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime(),
  status: z.enum(["pending", "allowed", "denied", "expired"]),
});
export type Ask = z.infer<typeof Ask>;

/** A person's answer to an ask. */
export const AskAnswer = z.strictObject({
  decision: z.enum(["allow", "deny"]),
  scope: z.enum(["once", "session", "minutes"]),
  minutes: z.number().positive().max(APPROVAL_MINUTES_MAX).optional().describe("required with scope minutes"),
});
export type AskAnswer = z.infer<typeof AskAnswer>;
