import { join } from "node:path";
import { type DetectionFinding, EXPORT_ROUTES } from "../detection/mod.ts";
import type { Event } from "../event/mod.ts";
import { type AuditOptions, AuditSender } from "./audit.ts";
import { Delivery, type DeliveryOptions, type SinkStatus } from "./delivery.ts";
import { OcsfSender } from "./ocsf.ts";
import { OtlpSender } from "./otlp.ts";
import { recordOf } from "./record.ts";

/** Milliseconds that closing waits for what can still be delivered. */
const CLOSE_MS = 2000;

export interface SinksOptions extends DeliveryOptions {
  /** folder of the queues; of one process only */
  dir: string;
  audit?: AuditOptions;
  /** `sigma_output_endpoint`: OCSF Detection Finding, one a POST */
  http?: { endpoint: string };
  /** `open_telemetry`: OTLP/HTTP logs in JSON */
  otlp?: { endpoint: string };
}

/**
 * Where findings go beside the ledger (spec.md, "Events"). Each sink has a queue on disk of its own: `send` returns at
 * once, a sink that is away holds up no other, and gets what it missed when it is back, also after a restart. A
 * finding may arrive twice, with the same id.
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

  /** @throws {SbxError} `sink.conflict` when another process has the folder */
  static async open({ dir, audit, http, otlp, ...options }: SinksOptions): Promise<FindingSinks> {
    const senders = [
      ["audit", audit && new AuditSender(audit)],
      ["http", http && new OcsfSender(http.endpoint)],
      ["otlp", otlp && new OtlpSender(otlp.endpoint)],
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
   * Queues a finding for every sink; never throws, never waits.
   *
   * @param routes of its pack; without one that is known, all
   */
  send(finding: DetectionFinding, event: Event, routes: readonly string[] = []): void {
    const record = recordOf(finding, event);
    const named = routes.filter((route) => EXPORT_ROUTES.includes(route));
    for (const sink of this.sinks) {
      if (sink.name === "audit" || !named.length || named.includes(sink.name)) sink.put(record);
    }
  }

  /** How each of them does. */
  status(): SinkStatus[] {
    return this.sinks.map((sink) => sink.status());
  }

  /** Delivers what it can at once; what is left is on disk, for the next `open`. */
  async close(graceMs = CLOSE_MS): Promise<void> {
    await Promise.all(this.sinks.map((sink) => sink.close(graceMs)));
  }
}
