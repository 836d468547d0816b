/** Metrics of the service: what it hears of becomes counters, and nothing of a guest becomes a label. */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { type Notice, Notices, ServiceMetrics } from "../../../lib/service/mod.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { fromRoot } from "../../helper/repo.ts";
import { joinMetrics } from "../../../lib/base/metrics/mod.ts";
import { parseExposition } from "../../helper/exposition.ts";
import { requestEvent, writeEvents } from "../../helper/ledger.ts";
import { recordOf } from "../../helper/vm.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";

async function withMetrics(
  run: (metrics: ServiceMetrics, notices: Notices, registry: Registry, dir: string) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const [registry, notices] = [new Registry(home), new Notices()];
    const metrics = new ServiceMetrics({
      home,
      registry,
      notices,
      sessions: { uncollected: () => Promise.resolve(3) },
      findings: {
        status: () =>
          ["otlp", "webhook"].map((name) => ({
            name,
            sent: 1,
            queued_bytes: 77,
            dropped: 2,
            refused: 3,
            last_sent_unix_ms: null,
            last_error: null,
          })),
      },
    });
    await run(metrics, notices, registry, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function vmOf(id: string, dir: string, state: Partial<Vm["state"]>): Vm {
  return {
    record: recordOf(id, "v"),
    paths: { ledger: join(dir, "session.db") } as Vm["paths"],
    process: {} as Vm["process"],
    state: { state: "Running", boot_stages: [], pid: 1, ...state },
  };
}

const value = (text: string, series: string) => {
  const [, number] = text.split("\n").find((line) => line.startsWith(`${series} `))!.split(" ");
  return Number(number);
};

Deno.test("events, denials, asks, findings and boots are counted", () =>
  withMetrics(async (metrics, notices, registry, dir) => {
    const id = crypto.randomUUID();
    registry.add(vmOf(id, dir, { started: { by: "template" }, boot_stages: [{ name: "ready", ms: 400 }] }));
    const publish = (type: string, payload: unknown) => notices.publish({ type, payload } as Notice);
    publish("vm-state-changed", { id, status: "Booting" });
    publish("vm-state-changed", { id, status: "Running" });
    publish("vm-state-changed", { id, status: "Paused" });
    publish("vm-state-changed", { id, status: "Running" });
    const event = requestEvent("http.request", { host: 'evil"} 1\n' });
    event.common.session_id = id;
    publish("security-event", { event, decision: { decision: "allow" }, decided_ms: 0.3 });
    publish("security-event", { event, decision: { decision: "block" } });
    publish("security-event", { event });
    publish("security-event", { event, decision: { decision: 'new"thing' } });
    const ask = { ask_id: "a", session_id: id };
    publish("ask", { ...ask, status: "pending" });
    const waiting = await metrics.render();
    assertEquals(value(waiting, "sbx_asks_waiting"), 1);
    publish("ask", { ...ask, status: "denied" });
    publish("finding", { severity: "high", title: "x" });
    metrics.request("GET", "/vms/{id}/info", 200, 0.02);
    metrics.request("EVIL", "/secret/path", 404, 0.02);
    const text = await metrics.render();
    parseExposition(text);
    for (
      const [series, expected] of Object.entries({
        'sbx_vms{state="Running"}': 1,
        'sbx_boot_duration_seconds_bucket{way="template",le="0.25"}': 0,
        'sbx_boot_duration_seconds_count{way="template"}': 1,
        "sbx_boot_failures_total": 0,
        'sbx_events_total{family="http",decision="allow"}': 1,
        'sbx_decision_duration_seconds_bucket{family="http",le="0.00025"}': 0,
        'sbx_decision_duration_seconds_bucket{family="http",le="0.0005"}': 1,
        'sbx_decision_duration_seconds_count{family="http"}': 1,
        'sbx_events_total{family="http",decision="block"}': 1,
        'sbx_events_total{family="http",decision="observed"}': 1,
        'sbx_events_total{family="http",decision="other"}': 1,
        "sbx_denials_total": 2,
        'sbx_asks_total{answer="denied"}': 1,
        "sbx_asks_waiting": 0,
        'sbx_findings_total{severity="high"}': 1,
        'sbx_api_requests_total{method="GET",route="/vms/{id}/info",code="2xx"}': 1,
        'sbx_api_requests_total{method="other",route="other",code="4xx"}': 1,
        "sbx_ledger_uncollected_sessions": 3,
        'sbx_sink_queue_bytes{sink="otlp"}': 77,
        'sbx_sink_lost_findings{sink="otlp"}': 5,
        'sbx_sink_queue_bytes{sink="webhook"}': 77,
      })
    ) assertEquals(value(text, series), expected, series);
    assert(!text.includes("evil") && !text.includes("secret"));
  }));

Deno.test("events that are not in the ledger's file yet are its lag; of a VM that is gone there is none", () =>
  withMetrics(async (metrics, notices, registry, dir) => {
    const id = crypto.randomUUID();
    const vm = vmOf(id, dir, {});
    registry.add(vm);
    await writeEvents(vm.paths.ledger, 3);
    const event = requestEvent("http.request");
    event.common = { ...event.common, session_id: id, sequence: 5 };
    notices.publish({ type: "security-event", payload: { event } } as unknown as Notice);
    assertEquals(value(await metrics.render(), "sbx_ledger_lag_events"), 2);
    registry.remove(vm);
    assertEquals(value(await metrics.render(), "sbx_ledger_lag_events"), 0);
  }));

Deno.test("docs/guides/metrics.md names every metric with its type and labels, and no other", () =>
  withMetrics(async (metrics, notices, registry, dir) => {
    const page = await Deno.readTextFile(fromRoot("docs/guides/metrics.md"));
    const documented = [...page.matchAll(/^\| `(\w+)` +\| (\w+) +\|/gm)].map(([, name, type]) =>
      `${name} ${type}`
    );
    registry.add(vmOf(crypto.randomUUID(), dir, {}));
    notices.publish({ type: "settings-changed", payload: { ids: [] } });
    const families = parseExposition(await metrics.render()).values();
    assertEquals([...families].map(({ name, type }) => `${name} ${type}`).sort(), documented.sort());
    // The metrics of all users keep every series, by types that names alone decide.
    const text = await metrics.render();
    const samplesOf = (each: string) =>
      [...parseExposition(each)].flatMap(([name, { type, samples }]) =>
        samples.map((sample) => ({ ...sample, name: sample.name.replace(/^sbx_process/, "process"), type }))
          .map((sample) => ({ ...sample, family: name.replace(/^sbx_process/, "process") }))
      );
    assertEquals(samplesOf(joinMetrics([{ labels: {}, text }])), samplesOf(text));
  }));
