/**
 * Findings on their way to a sink: the record, which has the finding and enough of its event to locate it,
 * and its sender.
 */
import type { DetectionFinding } from "../../detection/mod.ts";
import {
  type Event,
  type EventCommon,
  type EventFamily,
  familyOf,
  type FindingDecision,
} from "../../event/mod.ts";

/** Maximum `bytes` of a record's JSON; a record beyond it is stored without its subject. */
export const RECORD_MAX = 64 * 1024;

/** User and machine of a session, and the program that asked for it, as that named itself. */
export interface Maker {
  user: string;
  device: string;
  client: string;
}

/** One line of a queue and of the audit file. */
export interface FindingRecord {
  schema: "sbx.finding-record.v1";
  finding: DetectionFinding;
  common: EventCommon;
  /** the decision on the event; absent in a record of an older sbx */
  decision?: FindingDecision;
  /** the VM's name; absent where the index of sessions cannot be read */
  vm_name?: string;
  /** the finding went out before: its event waited for an answer, or a person changed its state */
  is_update?: true;
  /** absent for a new finding */
  state?: RecordState;
  /** id of the exception that it falls under */
  exception?: string;
  /** absent for sessions of an older sbx */
  made_by?: Maker;
  /** exported fields of the event, without bodies, headers and arguments, which stay on this machine */
  subject?: Record<string, unknown>;
}

/** Fields of each family that may leave the machine. */
export const EXPORTED_FIELDS: Record<EventFamily, string[]> = {
  http: ["method", "scheme", "host", "port", "path", "path_class", "bytes", "status", "address"],
  dns: ["qname", "qtype", "transport", "rcode", "answers"],
  sign: ["kind", "format", "signer", "own", "object", "digest", "bytes"],
  db: ["system", "host", "port", "user", "name", "kind", "command", "bytes", "error"],
  mcp: ["method", "server_name", "tool_name", "namespaced_tool_name", "is_error"],
  model: [
    "provider",
    "api_family",
    "model",
    "operation",
    "status",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
  ],
  file: ["operation", "path", "path_class", "name", "ext", "byte_count"],
  process: ["operation", "executable", "command", "cwd", "exit_code"],
  credential: ["provider", "credential_ref", "host", "location", "outcome"],
};

/** The state that a person gave a finding. */
export interface RecordState {
  status: "acknowledged" | "closed";
  verdict?: "true-positive" | "false-positive" | "accepted";
  reason?: string;
  by: { user: string; client: string };
  at: string;
}

/** Parts of a record besides the finding and its event. */
export type RecordContext = Pick<
  FindingRecord,
  "decision" | "vm_name" | "is_update" | "state" | "exception" | "made_by"
>;

/** Builds the record of a finding. */
export function recordOf(
  finding: DetectionFinding,
  event: Event,
  { decision, vm_name, is_update, state, exception, made_by }: RecordContext = {},
): FindingRecord {
  const subject = partsOf(event, familyOf(event.common.event_type));
  return {
    schema: "sbx.finding-record.v1",
    finding,
    common: event.common,
    ...(decision && { decision }),
    ...(vm_name !== undefined && { vm_name }),
    ...(is_update && { is_update }),
    ...(state && { state }),
    ...(exception !== undefined && { exception }),
    ...(made_by && { made_by }),
    subject,
  };
}

/** Fields of an event that may leave the machine. */
export function partsOf(event: Event, family: EventFamily): Record<string, unknown> {
  const parts = event[family] as Record<string, Record<string, unknown>> | undefined;
  const subject: Record<string, unknown> = {};
  for (const part of Object.values(parts ?? {})) {
    for (const key of EXPORTED_FIELDS[family]) if (part?.[key] !== undefined) subject[key] = part[key];
  }
  return subject;
}

/** Formats a record as one line, without a line end. */
export function lineOf(record: FindingRecord): string {
  const text = JSON.stringify(record);
  if (new TextEncoder().encode(text).length <= RECORD_MAX) return text;
  const { subject: _, common: { process: __, labels: ___, ...common }, ...rest } = record;
  return JSON.stringify({ ...rest, common: { ...common, labels: {} } });
}

/** Delivers records to one sink. */
export interface Sender {
  /** maximum number of records per call */
  readonly batch: number;
  /** absent: it takes every record */
  accepts?(record: FindingRecord): boolean;
  /**
   * Delivers records; settles once they have arrived.
   *
   * @returns number of records that the receiver rejected
   * @throws {DeliveryError}
   */
  send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number>;
}

/** Failed delivery. */
export class DeliveryError extends Error {
  override name = "DeliveryError";

  constructor(
    message: string,
    /** the receiver rejected the records; a retry would fail too */
    readonly isRejected = false,
    /** delay that the receiver requested, in `ms` */
    readonly retryAfterMs?: number,
    /** the receiver answered that it failed, which can be because of one of the records */
    readonly isFault = false,
  ) {
    super(message);
  }
}
