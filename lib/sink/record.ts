/** What a sink is told of a finding: the finding, and so much of its event as it takes to go and look. */
import type { DetectionFinding } from "../detection/mod.ts";
import type { Event, EventCommon } from "../event/mod.ts";

/** Longest record, in characters of its JSON; a longer subject is left out. */
export const RECORD_MAX = 64 * 1024;

/** One line of a queue and of the audit file. */
export interface FindingRecord {
  schema: "sbx.finding-record.v1";
  finding: DetectionFinding;
  common: EventCommon;
  /** what the event is about, without bodies, headers and arguments: those stay on this machine */
  subject?: Record<string, unknown>;
}

/** The family's parts that leave the machine. */
const KEPT: Record<string, string[]> = {
  http: ["method", "scheme", "host", "port", "path", "path_class", "bytes", "status"],
  dns: ["qname", "qtype", "transport", "rcode", "answers"],
  mcp: ["method", "server_name", "tool_name", "namespaced_tool_name", "is_error"],
  model: ["provider", "api_family", "model", "operation", "status", "input_tokens", "output_tokens"],
  file: ["operation", "path", "path_class", "name", "ext", "byte_count"],
  process: ["operation", "executable", "command", "cwd", "exit_code"],
  credential: ["provider", "credential_ref", "host", "location", "outcome"],
};

/** The record of a finding. */
export function recordOf(finding: DetectionFinding, event: Event): FindingRecord {
  const family = event.common.event_type.split(".")[0];
  const parts = event[family as keyof Event] as Record<string, Record<string, unknown>> | undefined;
  const subject: Record<string, unknown> = {};
  for (const part of Object.values(parts ?? {})) {
    for (const key of KEPT[family] ?? []) if (part?.[key] !== undefined) subject[key] = part[key];
  }
  return { schema: "sbx.finding-record.v1", finding, common: event.common, subject };
}

/** The record as one line, without a line end. */
export function lineOf(record: FindingRecord): string {
  const text = JSON.stringify(record);
  if (text.length <= RECORD_MAX) return text;
  const { subject: _, common: { process: __, labels: ___, ...common }, ...rest } = record;
  return JSON.stringify({ ...rest, common: { ...common, labels: {} } });
}
