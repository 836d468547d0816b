/**
 * Metrics of one service (docs/guides/metrics.md). Counters begin with the service; gauges are read on
 * request.
 */
import { ROUTES } from "../../client/gateway/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { BUILD_HASH, VERSION } from "../../base/version/mod.ts";
import { EVENT_FAMILIES, familyOf, SEVERITIES } from "../../event/mod.ts";
import type { SessionNotice } from "../../session/gate/mod.ts";
import { Histogram, type Metric, Value } from "../../base/metrics/mod.ts";
import type { Ask } from "../../policy/mod.ts";
import { VmStatus } from "../../client/api/mod.ts";
import type { FindingExport } from "../record/export.ts";
import { withDeadline } from "./health.ts";
import type { Notice, Notices } from "../notice.ts";
import type { Registry } from "../vm/registry.ts";
import type { Sessions } from "../record/sessions.ts";

/** Longest time for one VM's record, or one gauge, in `ms`; late values are left out. */
const PROBE_MS = timeLimit(2000);

const WAYS = ["cold", "template", "resume", "fork"] as const;
const DECISIONS = ["allow", "ask", "block", "observed"] as const;
const ANSWERS = ["allowed", "denied", "expired"] as const;
const SINKS = ["http", "otlp", "audit", "webhook"] as const;
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
const CODES = ["2xx", "3xx", "4xx", "5xx"] as const;
const ROUTE_PATHS = [...new Set(ROUTES.map(({ path }) => path))];

const BOOT_BOUNDS = [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const REQUEST_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
const DECISION_BOUNDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25];
const ASK_BOUNDS = [1, 5, 15, 30, 60, 300, 3600];

/** Parts of the service that are measured. */
export interface MetricSources {
  home: Home;
  registry: Registry;
  sessions: Pick<Sessions, "uncollected">;
  findings: Pick<FindingExport, "status">;
  notices: Notices;
}

/** Counts the service's notices, and reads the rest on request. */
export class ServiceMetrics {
  readonly #sources: MetricSources;
  readonly #build = Value.gauge({
    name: "sbx_build_info",
    help: "Version of the service; always 1.",
    labels: { version: [VERSION], build: [BUILD_HASH] },
  });
  readonly #started = Value.gauge({
    name: "process_start_time_seconds",
    help: "Start of the service, in seconds since 1970.",
  });
  readonly #memory = Value.gauge({
    name: "process_resident_memory_bytes",
    help: "Memory of the service in bytes, without its VMs.",
  });
  readonly #vms = Value.gauge({
    name: "sbx_vms",
    help: "VMs by state, including VMs of MCP servers.",
    labels: { state: VmStatus.options },
  });
  readonly #boots = new Histogram({
    name: "sbx_boot_duration_seconds",
    help: "Time of a boot until the VM is ready, by the way in which it started.",
    labels: { way: WAYS },
  }, BOOT_BOUNDS);
  readonly #bootFailures = Value.counter({
    name: "sbx_boot_failures_total",
    help: "VMs that did not become ready.",
  });
  readonly #events = Value.counter({
    name: "sbx_events_total",
    help: "Events by family and first decision; observed: nothing could stop it.",
    labels: { family: EVENT_FAMILIES, decision: DECISIONS },
  });
  readonly #decisionTime = new Histogram({
    name: "sbx_decision_duration_seconds",
    help: "Time until an event had its first decision and both were on record.",
    labels: { family: EVENT_FAMILIES },
  }, DECISION_BOUNDS);
  readonly #denials = Value.counter({
    name: "sbx_denials_total",
    help: "Events that were blocked by a rule, a guard or an answer.",
  });
  readonly #asks = Value.counter({
    name: "sbx_asks_total",
    help: "Questions to a person that ended, by their end.",
    labels: { answer: ANSWERS },
  });
  readonly #askTime = new Histogram({
    name: "sbx_ask_wait_seconds",
    help: "Time that a question waited for its answer.",
  }, ASK_BOUNDS);
  readonly #asksWaiting = Value.gauge({
    name: "sbx_asks_waiting",
    help: "Questions that wait for a person.",
  });
  readonly #findings = Value.counter({
    name: "sbx_findings_total",
    help: "Findings by severity.",
    labels: { severity: SEVERITIES },
  });
  readonly #requests = Value.counter({
    name: "sbx_api_requests_total",
    help: "Requests to the API of the service.",
    labels: { method: METHODS, route: ROUTE_PATHS, code: CODES },
  });
  readonly #requestTime = new Histogram({
    name: "sbx_api_request_duration_seconds",
    help: "Time of a request to the API until its response begins.",
  }, REQUEST_BOUNDS);
  readonly #lag = Value.gauge({
    name: "sbx_ledger_lag_events",
    help: "Events of running VMs that happened and are not in their ledger's file yet.",
  });
  readonly #uncollected = Value.gauge({
    name: "sbx_ledger_uncollected_sessions",
    help: "Sessions with rows that the collecting server may lack, running ones too.",
  });
  readonly #queue = Value.gauge({
    name: "sbx_sink_queue_bytes",
    help: "Bytes of findings that wait for a sink.",
    labels: { sink: SINKS },
  });
  readonly #lost = Value.gauge({
    name: "sbx_sink_lost_findings",
    help: "Findings that a sink lacks since the service started: refused by it, or beyond its queue.",
    labels: { sink: SINKS },
  });
  /** session of each ask that waits */
  readonly #waiting = new Map<string, { session: string; since: number }>();
  /** last sequence reported by each running session */
  readonly #heard = new Map<string, number>();
  readonly #booting = new Set<string>();

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#build.set(1, { version: VERSION, build: BUILD_HASH });
    this.#started.set(Math.round(Date.now() / 1000 - performance.now() / 1000));
    sources.notices.listen((notice) => this.#take(notice));
  }

  /** Counts one request to the API. @param route its pattern; any other text counts as `other` */
  request(method: string, route: string, status: number, seconds: number): void {
    this.#requests.add({ method, route, code: `${Math.floor(status / 100)}xx` });
    this.#requestTime.observe(seconds);
  }

  /** Every metric as text. */
  async render(): Promise<string> {
    await Promise.all([this.#readVms(), this.#readLag(), this.#readSinks(), this.#readUncollected()]);
    this.#memory.set(Deno.memoryUsage().rss);
    const metrics: Metric[] = [
      this.#build,
      this.#started,
      this.#memory,
      this.#vms,
      this.#boots,
      this.#bootFailures,
      this.#events,
      this.#decisionTime,
      this.#denials,
      this.#asks,
      this.#askTime,
      this.#asksWaiting,
      this.#findings,
      this.#requests,
      this.#requestTime,
      this.#lag,
      this.#uncollected,
      this.#queue,
      this.#lost,
    ];
    return metrics.map((metric) => metric.render()).join("");
  }

  #take(notice: Notice): void {
    const { type, payload } = notice as SessionNotice | Extract<Notice, { type: "vm-state-changed" }>;
    if (type === "security-event") {
      const { event: { common }, decision, decided_ms } = payload;
      this.#heard.set(common.session_id, common.sequence);
      const family = familyOf(common.event_type);
      this.#events.add({ family, decision: decision?.decision ?? "observed" });
      if (decided_ms !== undefined) this.#decisionTime.observe(decided_ms / 1000, { family });
      if (decision?.decision === "block") this.#denials.add();
    } else if (type === "finding") this.#findings.add({ severity: payload.severity });
    else if (type === "ask") this.#ask(payload);
    else if (type === "vm-state-changed") this.#state(payload.id, payload.status);
  }

  #ask({ ask_id, session_id, status }: Ask): void {
    const waits = this.#waiting.get(ask_id);
    if (status === "pending") {
      if (!waits) this.#waiting.set(ask_id, { session: session_id, since: performance.now() });
      return;
    }
    this.#waiting.delete(ask_id);
    this.#asks.add({ answer: status });
    if (status !== "allowed") this.#denials.add();
    if (waits) this.#askTime.observe((performance.now() - waits.since) / 1000);
  }

  #state(id: string, status: string): void {
    if (status === "Booting") return void this.#booting.add(id);
    if (!this.#booting.delete(id)) return;
    const vm = this.#sources.registry.all().find(({ record }) => record.id === id);
    if (status !== "Running") return this.#bootFailures.add();
    const { started, boot_stages = [] } = vm?.state ?? {};
    const ready = boot_stages.find(({ name }) => name === "ready");
    if (started && ready) this.#boots.observe(ready.ms / 1000, { way: started.by });
  }

  #readVms(): void {
    const all = this.#sources.registry.all();
    for (const state of VmStatus.options) {
      this.#vms.set(all.filter((vm) => vm.state.state === state).length, { state });
    }
    const alive = new Set(this.#sources.registry.alive().map(({ record }) => record.id));
    for (const [ask, { session }] of this.#waiting) if (!alive.has(session)) this.#waiting.delete(ask);
    for (const session of this.#heard.keys()) if (!alive.has(session)) this.#heard.delete(session);
    this.#asksWaiting.set(this.#waiting.size);
  }

  async #readLag(): Promise<void> {
    const { readHeads } = await import("../../ledger/read/mod.ts");
    const running = this.#sources.registry.alive();
    const lags = await Promise.all(running.map(async ({ record, paths }) => {
      const heard = this.#heard.get(record.id);
      if (heard === undefined) return 0;
      const heads = await withDeadline(readHeads(paths.ledger), PROBE_MS).catch(() => undefined);
      return heads ? Math.max(0, heard - heads.events) : 0;
    }));
    this.#lag.set(lags.reduce((sum, lag) => sum + lag, 0));
  }

  async #readUncollected(): Promise<void> {
    const count = await withDeadline(this.#sources.sessions.uncollected(), PROBE_MS).catch(() => undefined);
    if (count !== undefined) this.#uncollected.set(count);
  }

  #readSinks(): void {
    for (const { name, queued_bytes, dropped, refused } of this.#sources.findings.status()) {
      this.#queue.set(queued_bytes, { sink: name });
      this.#lost.set(dropped + refused, { sink: name });
    }
  }
}
