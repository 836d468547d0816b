/**
 * Rules in the public style: each finds its event and not the one beside it,
 * through every way that rules take.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type DetectionIr, isPlan, Matcher, rulesOf } from "../../../lib/detection/mod.ts";
import { loadPack, loadRules, OverlayStore } from "../../../lib/detection/active/mod.ts";
import { reportPortability } from "../../../lib/detection/compile/mod.ts";
import { CompiledSchema } from "../../../lib/detection/schema.ts";
import { checkEvents } from "../../../lib/detection/replay/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { Detector } from "../../../lib/session/gate/active_rules.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";
import { fromRoot } from "../../helper/repo.ts";

const RULES = fromRoot("fixtures/detection/rules");
const EVENTS = join(RULES, "events.jsonl");

Deno.test("every rule in the public style compiles, and finds exactly its events", async () => {
  const { ir, warnings } = await loadPack(RULES);
  const { report } = await checkEvents(ir, EVENTS);
  assertEquals([report.ok, report.diagnostics, warnings], [true, [], []]);
  const found = new Set(report.findings.map(({ rule_id }) => rule_id));
  assertEquals(rulesOf(ir).map(({ id }) => id).filter((id) => !found.has(id)), []);
  assert(rulesOf(ir).length >= 23);
  const { language } = await reportPortability(RULES);
  const { compiled, refused, not_applicable, never_matches } = language;
  assertEquals([compiled, refused, not_applicable, never_matches], [rulesOf(ir).length, 0, 0, 0]);
});

Deno.test("a plan passes its schema as it is, and no other plan does", async () => {
  const { ir } = await loadPack(RULES);
  assert(isPlan(ir));
  assertEquals(CompiledSchema.parse(JSON.parse(JSON.stringify(ir))), ir);
  const [rule, ...rules] = ir.rules;
  const wrong = [
    { ...rule, condition: { sel: 99 } },
    { ...rule, selections: [{ sel: 0 }] },
    { ...rule, extra: 1 },
    { ...rule, selections: [{ on: ["a#nothing"], is: [{ t: "null" }] }], condition: { sel: 0 } },
  ];
  for (const each of wrong) {
    assertEquals(
      CompiledSchema.safeParse({ ...ir, rules: [each, ...rules] }).success,
      false,
      JSON.stringify(each),
    );
  }
});

Deno.test("overlays of Sigma rules survive a restart; a file without a good rule is refused with its lines", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const { source } = (await loadRules(join(RULES, "web_jndi.yml")))!;
    const store = await OverlayStore.open(dir);
    const overlay = await store.put({ sigma: source });
    assertEquals([overlay.id, overlay.ir && rulesOf(overlay.ir).length], ["sigma.web-jndi", 1]);
    const again = await OverlayStore.open(dir);
    assertEquals(again.irs(), store.irs());
    const bad = {
      id: "sigma.bad",
      files: [{ path: "bad.yml", text: "title: A\ndetection: {a: {b|c: d}, condition: a}\n" }],
    };
    const error = await assertRejects(() => store.put({ sigma: bad }), SbxError);
    assertEquals([error.code, error.message.split("\n")[0]], [
      "detection.invalid",
      "bad.yml:1: logsource is missing",
    ]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

function httpEvent(status?: number): Event {
  const request = httpRequest({ host: "pastebin.com", path: "/raw/x", url: "https://pastebin.com/raw/x" });
  const http = { request, ...status !== undefined && { response: { status } } };
  return { schema_version: 1, common: eventCommon("http.request"), http } as unknown as Event;
}

Deno.test("in a VM a rule over a response waits for it; an event that is blocked will have none", async () => {
  const { ir } = await loadPack(join(RULES, "proxy_raw_paste.yml"));
  const detector = new Detector([ir], { [ir.pack_id]: ["otlp"] });
  assert(detector.readsResponses);
  assertEquals(detector.matchRequest(httpEvent()), []);
  assertEquals(detector.matchResponse(httpEvent(404)), []);
  const [finding] = detector.matchResponse(httpEvent(200));
  const { sigma_id, severity, tags, pack_id, export_routes } = finding;
  assertEquals({ sigma_id, severity, tags, pack_id, export_routes }, {
    sigma_id: rulesOf(ir)[0].sigma_id,
    severity: "high",
    tags: ["attack.command-and-control"],
    pack_id: "sigma.proxy-raw-paste",
    export_routes: ["otlp"],
  });
  assertEquals(detector.matchRequest(httpEvent(), true).length, 1);
  assertEquals(detector.counters().map(({ match_count }) => match_count), [2]);
  // A changed set of rules continues the counters.
  assertEquals(new Detector([ir], {}, detector).counters().map(({ match_count }) => match_count), [2]);
});

Deno.test("packs and Sigma rules match side by side, in their order", async () => {
  const { ir: plan } = await loadPack(join(RULES, "proxy_raw_paste.yml"));
  const { ir: pack } = await loadPack(fromRoot("fixtures/detection/minimal.pack.yaml"));
  const [rule] = (pack as DetectionIr).rules;
  const any = {
    ...rule,
    matchers: [{ ...rule.matchers[0], field_path: "http.request.host", values: ["pastebin.com"] }],
  };
  const matcher = new Matcher([plan, { ...pack as DetectionIr, rules: [any] }]);
  assertEquals(matcher.match(httpEvent(200)).map(({ pack_id }) => pack_id), [plan.pack_id, pack.pack_id]);
});
