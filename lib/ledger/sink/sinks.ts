import { timeLimit } from "../../base/time/mod.ts";
import { join } from "node:path";
import type { DetectionFinding } from "../../detection/mod.ts";
import type { Event } from "../../event/mod.ts";
import { type AuditOptions, AuditSender } from "./audit.ts";
import { Delivery, type DeliveryOptions, type SinkStatus } from "./delivery.ts";
import type { Endpoint } from "./http.ts";
import { OcsfSender } from "./ocsf.ts";
import { OtlpSender } from "./otlp.ts";
import { type Maker, recordOf } from "./record.ts";

/** Default time for deliveries on close, in `ms`. */
const CLOSE_MS = timeLimit(2000);

export interface SinksOptions extends DeliveryOptions {
  /** folder of the queues, used by one process only */
  dir: string;
  audit?: AuditOptions;
  /** `sigma_output_endpoint`: one OCSF Detection Finding per POST */
  http?: Endpoint;
  /** `open_telemetry`: OTLP/HTTP logs in JSON */
  otlp?: Endpoint;
}

/**
 * Sinks of findings in addition to the ledger (docs/guides/detection.md, "Where findings go"). Each has its
 * own queue on disk: `send` returns at once, an unreachable sink does not block the others, and receives the
 * queued findings later, also after a restart. A finding may arrive twice, with the same id.
 *
 * @example
 * ```ts
 * const sinks = await FindingSinks.open({ dir, audit: { path } });
 * for (const finding of matcher.match(event)) sinks.send(finding, event);
 * await sinks.close();
 * ```
 */
export class FindingSinks {
  private constructor(readonly sinks: readonly Delivery[]) {}

  /** @throws {SbxError} `sink.conflict`: another process uses the folder */
  static async open({ dir, audit, http, otlp, ...options }: SinksOptions): Promise<FindingSinks> {
    const senders = [
      ["audit", audit && new AuditSender(audit)],
      ["http", http && new OcsfSender(http)],
      ["otlp", otlp && new OtlpSender(otlp)],
    ] as const;
    const sinks: Delivery[] = [];
    try {
      for (const [name, sender] of senders) {
        if (sender) sinks.push(await Delivery.open(name, join(dir, name), sender, options));
      }
    } catch (error) {
      await Promise.all(sinks.map((sink) => sink.close(0)));
      throw error;
    }
    return new FindingSinks(sinks);
  }

  /**
   * Queues a finding for the sinks that its `export_routes` name, or for all; the audit file gets every finding. Never
   * throws, never waits.
   *
   * @param made_by of the session
   */
  send(finding: DetectionFinding, event: Event, made_by?: Maker): void {
    const record = recordOf(finding, event, made_by);
    const { export_routes: routes = [] } = finding;
    for (const sink of this.sinks) {
      if (sink.name === "audit" || routes.length === 0 || routes.includes(sink.name)) sink.put(record);
    }
  }

  /** Status of each sink. */
  status(): SinkStatus[] {
    return this.sinks.map((sink) => sink.status());
  }

  /** Delivers findings for up to `graceMs`; the rest stays on disk for the next `open`. */
  async close(graceMs = CLOSE_MS): Promise<void> {
    await Promise.all(this.sinks.map((sink) => sink.close(graceMs)));
  }
}
