/** OCSF sink: one Detection Finding (class 2004) per POST to `sigma_output_endpoint` of corp.toml. */
import { deviceName } from "../../base/user/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Confidence, Severity } from "../../detection/mod.ts";
import { type EventCommon, familyOf, type FindingDecision } from "../../event/mod.ts";
import { type Endpoint, HttpReceiver } from "./http.ts";
import { evidenceOf, observablesOf, processOf } from "./ocsf_evidence.ts";
import type { FindingRecord, RecordState, Sender } from "./record.ts";

export const OCSF_VERSION = "1.5.0";

const SEVERITY: Record<Severity, [number, string]> = {
  info: [1, "Informational"],
  low: [2, "Low"],
  medium: [3, "Medium"],
  high: [4, "High"],
  critical: [5, "Critical"],
};
const CONFIDENCE: Record<Confidence, [number, string]> = {
  low: [1, "Low"],
  medium: [2, "Medium"],
  high: [3, "High"],
};

/** Action and disposition of the security control for each decision. */
const CONTROL: Record<FindingDecision["outcome"], Control> = {
  allow: [[1, "Allowed"], [1, "Allowed"]],
  rewritten: [[4, "Modified"], [11, "Corrected"]],
  ask: [[0, "Unknown"], [14, "Delayed"]],
  "ask-allowed": [[1, "Allowed"], [8, "Approved"]],
  "ask-denied": [[2, "Denied"], [25, "Rejected"]],
  "ask-expired": [[2, "Denied"], [2, "Blocked"]],
  block: [[2, "Denied"], [2, "Blocked"]],
  observed: [[3, "Observed"], [15, "Detected"]],
};

type Control = [action: [number, string], disposition: [number, string]];

/** Least severity of an alert: High. */
const ALERT_SEVERITY = 4;

/** Converts a finding to an OCSF event. */
export function ocsfOf(record: FindingRecord): Record<string, unknown> {
  const { finding, common, made_by, vm_name, decision, is_update, state, exception } = record;
  const [severity_id, severity] = SEVERITY[finding.severity];
  const [confidence_id, confidence] = CONFIDENCE[finding.confidence];
  const [activity_id, activity_name] = state?.status === "closed"
    ? [3, "Close"]
    : is_update
    ? [2, "Update"]
    : [1, "Create"];
  const event = {
    category_uid: 2,
    category_name: "Findings",
    class_uid: 2004,
    class_name: "Detection Finding",
    activity_id,
    activity_name,
    type_uid: 200400 + activity_id,
    type_name: `Detection Finding: ${activity_name}`,
    time: common.timestamp_unix_ms,
    severity_id,
    severity,
    confidence_id,
    confidence,
    ...statusOf(record),
    ...(decision && controlOf(decision)),
    // An event that a person approved calls no one.
    is_alert: severity_id >= ALERT_SEVERITY && decision?.outcome !== "ask-allowed" && !state &&
      exception === undefined,
    message: finding.title,
    metadata: {
      version: OCSF_VERSION,
      uid: finding.finding_id,
      product: { name: "sbx", vendor_name: "sbx", version: VERSION },
      profiles: [
        "host",
        ...(decision ? ["security_control"] : []),
        ...(state?.verdict ? ["incident"] : []),
        ...(common.process?.container ? ["container"] : []),
      ],
      labels: finding.tags,
      log_name: "findings",
      original_time: String(common.timestamp_unix_ms),
    },
    finding_info: {
      uid: finding.finding_id,
      title: finding.title,
      created_time: common.timestamp_unix_ms,
      first_seen_time: common.timestamp_unix_ms,
      last_seen_time: common.timestamp_unix_ms,
      types: finding.tags,
      data_sources: [common.event_type],
      product_uid: finding.pack_id,
      analytic: {
        uid: finding.rule_id,
        name: finding.title,
        category: familyOf(common.event_type),
        type: "Rule",
        type_id: 1,
      },
      related_events: [{
        uid: common.event_id,
        type: common.event_type,
        first_seen_time: common.timestamp_unix_ms,
      }],
    },
    evidences: [evidenceOf(record)],
    ...actorOf(common.user_id ?? made_by?.user, made_by?.client, common),
    device: {
      uid: common.vm_id,
      ...(vm_name !== undefined && { name: vm_name }),
      hostname: made_by?.device ?? deviceName(),
      type_id: 6,
      type: "Virtual",
    },
    resources: [{
      uid: common.vm_id,
      ...(vm_name !== undefined && { name: vm_name }),
      type: "Virtual Machine",
      data: { profile_id: common.profile_id },
    }],
    unmapped: {
      "sbx.pack_id": finding.pack_id,
      "sbx.session_id": common.session_id,
      "sbx.sequence": common.sequence,
      ...(decision && { "sbx.decision": decision.outcome }),
      ...(decision?.answered_by !== undefined && { "sbx.answered_by": decision.answered_by }),
      ...(state && { "sbx.state": state.status, "sbx.state.by": state.by.user, "sbx.state.at": state.at }),
      ...(exception !== undefined && { "sbx.exception": exception }),
      ...(common.trace_id !== undefined && { "sbx.trace_id": common.trace_id }),
      ...(finding.sigma_id !== undefined && { "sbx.sigma_id": finding.sigma_id }),
    },
  };
  return { ...event, observables: observablesOf(event) };
}

/** Status and verdict of a closed finding. */
const CLOSED: Record<NonNullable<RecordState["verdict"]>, [[number, string], [number, string]]> = {
  "true-positive": [[4, "Resolved"], [2, "True Positive"]],
  "false-positive": [[3, "Suppressed"], [1, "False Positive"]],
  accepted: [[3, "Suppressed"], [3, "Disregard"]],
};

function statusOf({ state, exception }: FindingRecord): Record<string, unknown> {
  if (!state) {
    return exception === undefined ? { status_id: 1, status: "New" } : { status_id: 3, status: "Suppressed" };
  }
  const comment = state.reason === undefined ? {} : { comment: state.reason };
  if (!state.verdict) return { status_id: 2, status: "In Progress", ...comment };
  const [[status_id, status], [verdict_id, verdict]] = CLOSED[state.verdict];
  return { status_id, status, verdict_id, verdict, ...comment };
}

/** Attributes of the profile `security_control`. */
export function controlOf({ outcome, rule_id, layer }: FindingDecision): Record<string, unknown> {
  const [[action_id, action], [disposition_id, disposition]] = CONTROL[outcome];
  return {
    action_id,
    action,
    disposition_id,
    disposition,
    ...(rule_id !== undefined &&
      { policy: { uid: rule_id, name: rule_id, ...(layer && { group: { name: layer } }) } }),
  };
}

/**
 * The person whose session it is, the program that they asked with, and the process
 * in the guest where it is known.
 */
export function actorOf(
  user: string | undefined,
  app_name: string | undefined,
  { process, session_id }: EventCommon,
): Record<string, unknown> {
  if (user === undefined && app_name === undefined && !process) return {};
  return {
    actor: {
      ...(process && { process: processOf(process, session_id) }),
      ...(user !== undefined && { user: { name: user, type_id: 1, type: "User" } }),
      ...(app_name !== undefined && { app_name }),
    },
  };
}

/** Posts one finding per request. */
export class OcsfSender implements Sender {
  readonly batch = 1;
  readonly #receiver: HttpReceiver;

  constructor({ endpoint, authorize }: Endpoint) {
    this.#receiver = new HttpReceiver(new URL(endpoint), authorize);
  }

  async send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number> {
    for (const record of records) {
      // A finding may be sent twice, after a crash or a lost response.
      const key = record.finding.finding_id +
        (record.is_update ? `:${record.state?.at ?? record.decision?.outcome}` : "");
      await this.#receiver.post(ocsfOf(record), { "idempotency-key": key }, signal);
    }
    return 0;
  }
}
