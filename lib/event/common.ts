/**
 * The `common` object of every event (docs/design/contracts/05-policy.md §5), as zod. Validates files and
 * user input only.
 */
import { z } from "zod";

/** Event types; the family is the part before the dot. */
export const EVENT_TYPES = [
  "http.request",
  "dns.query",
  "mcp.tool_call",
  "mcp.tool_list",
  "mcp.event",
  "model.call",
  "file.activity",
  "process.exec",
  "process.exit",
  "credential.substitution",
] as const;

const count = z.int().min(0);

/** Guest process that caused the event, if known. */
export const ProcessRef = z.strictObject({
  pid: count,
  ppid: count,
  executable: z.string(),
  command: z.string(),
  cwd: z.string(),
});

export const Common = z.strictObject({
  event_id: z.string().regex(/^[0-9a-f]{12}$/, "an event id is 12 hex characters"),
  event_type: z.enum(EVENT_TYPES),
  session_id: z.string(),
  vm_id: z.string(),
  profile_id: z.string(),
  profile_revision: z.string(),
  user_id: z.string().optional(),
  timestamp_unix_ms: count,
  sequence: count.describe("place in the session's ledger, from 1; 0 until the ledger has it"),
  source_engine: z.enum(["network", "file", "process", "mcp", "model"]),
  enforceability: z.enum(["inline_blockable", "observe_only"]),
  actor: z.enum(["vm", "host"]),
  process: ProcessRef.optional(),
  trace_id: z.string().optional(),
  labels: z.record(z.string(), z.string()),
});
