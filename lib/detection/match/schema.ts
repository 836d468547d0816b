/** Zod schema of a match counter, for messages; the matcher counts without it. */
import { z } from "zod";

/** Match counter of a rule, for one VM or for all. */
export const RuleCounter = z.strictObject({
  rule_id: z.string(),
  pack_id: z.string(),
  match_count: z.int(),
  /** id of the last event that matched */
  last_matched_event: z.string().nullable(),
  last_matched_unix_ms: z.int().nullable(),
});
export type RuleCounter = z.infer<typeof RuleCounter>;
