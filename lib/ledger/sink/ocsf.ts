/** OCSF sink: one Detection Finding (class 2004) per POST to `sigma_output_endpoint` of corp.toml. */
import { isAddress } from "../../base/address/mod.ts";
import { deviceName } from "../../base/user/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Confidence, Severity } from "../../detection/mod.ts";
import type { EventProcess } from "../../event/mod.ts";
import { type Endpoint, HttpReceiver } from "./http.ts";
import type { FindingRecord, Sender } from "./record.ts";

const OCSF_VERSION = "1.4.0";

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

/** Types of observables that OCSF 1.4 has; `Other` is described by its own `type`. */
const HOSTNAME: ObservableType = [1, "Hostname"];
const IP_ADDRESS: ObservableType = [2, "IP Address"];
const OTHER = 99;

type ObservableType = [id: number, name: string];

/** Observables of each family: exported fields and their types. */
const OBSERVABLES: Record<string, Record<string, ObservableType>> = {
  http: { host: HOSTNAME },
  dns: { qname: HOSTNAME },
  db: { host: HOSTNAME },
  credential: { host: HOSTNAME },
  // A type of its own for paths comes with a later OCSF.
  file: { name: [7, "File Name"], path: [OTHER, "File Path"] },
  process: { executable: [9, "Process Name"] },
};

/** Converts a finding to an OCSF event. */
export function ocsfOf({ finding, common, made_by, subject = {} }: FindingRecord): Record<string, unknown> {
  const [severity_id, severity] = SEVERITY[finding.severity];
  const [confidence_id, confidence] = CONFIDENCE[finding.confidence];
  const family = common.event_type.split(".")[0];
  return {
    category_uid: 2,
    category_name: "Findings",
    class_uid: 2004,
    class_name: "Detection Finding",
    activity_id: 1,
    activity_name: "Create",
    type_uid: 200401,
    type_name: "Detection Finding: Create",
    time: common.timestamp_unix_ms,
    severity_id,
    severity,
    confidence_id,
    confidence,
    status_id: 1,
    status: "New",
    is_alert: severity_id >= 4,
    message: finding.title,
    metadata: {
      version: OCSF_VERSION,
      uid: finding.finding_id,
      product: { name: "sbx", vendor_name: "sbx", version: VERSION },
      profiles: common.process?.container ? ["host", "container"] : ["host"],
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
      analytic: { uid: finding.rule_id, name: finding.title, category: family, type: "Rule", type_id: 1 },
      related_events: [{
        uid: common.event_id,
        type: common.event_type,
        first_seen_time: common.timestamp_unix_ms,
      }],
    },
    evidences: [{ data: { event_id: common.event_id, event_type: common.event_type, ...subject } }],
    observables: observablesOf(family, subject),
    ...actorOf(common.user_id ?? made_by?.user, made_by?.client, common.process),
    device: { hostname: made_by?.device ?? deviceName(), type_id: 0, type: "Unknown" },
    resources: [{ uid: common.vm_id, type: "Virtual Machine", data: { profile_id: common.profile_id } }],
    unmapped: {
      "sbx.pack_id": finding.pack_id,
      "sbx.session_id": common.session_id,
      "sbx.sequence": common.sequence,
      ...(common.trace_id !== undefined && { "sbx.trace_id": common.trace_id }),
      ...(finding.sigma_id !== undefined && { "sbx.sigma_id": finding.sigma_id }),
    },
  };
}

/** The person whose session it is, the program that they asked with, and the process where it is one in a container. */
function actorOf(
  user: string | undefined,
  app_name: string | undefined,
  process: EventProcess | undefined,
): Record<string, unknown> {
  const { container } = process ?? {};
  if (user === undefined && app_name === undefined && !container) return {};
  return {
    actor: {
      ...(container &&
        { process: { name: process!.executable, pid: process!.pid, container: partOf(container) } }),
      ...(user !== undefined && { user: { name: user, type_id: 1 } }),
      ...(app_name !== undefined && { app_name }),
    },
  };
}

/** The container object of OCSF, whose image needs an id: its name is all that there is. */
function partOf({ id, name, image }: NonNullable<EventProcess["container"]>): Record<string, unknown> {
  return {
    uid: id,
    ...(name !== undefined && { name }),
    ...(image !== undefined && { image: { name: image, uid: image } }),
  };
}

function observablesOf(family: string, subject: Record<string, unknown>): unknown[] {
  return Object.entries(OBSERVABLES[family] ?? {}).flatMap(([key, known]) => {
    if (subject[key] === undefined) return [];
    const value = String(subject[key]);
    const [type_id, type] = known === HOSTNAME && isAddress(value) ? IP_ADDRESS : known;
    return [{ name: `evidences[0].data.${key}`, type_id, type, value }];
  });
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
      await this.#receiver.post(ocsfOf(record), { "idempotency-key": record.finding.finding_id }, signal);
    }
    return 0;
  }
}
