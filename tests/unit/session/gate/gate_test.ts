/** The gate of a session, over the real rules, the real queue of asks and a real ledger. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { compileRead } from "../../../../lib/detection/compile/mod.ts";
import type { DetectionIr, IrRule } from "../../../../lib/detection/mod.ts";
import { readPack } from "../../../../lib/detection/pack/mod.ts";
import { readEvents, readFindings, readWhy, verifyLedger } from "../../../../lib/ledger/read/mod.ts";
import { compileLayers } from "../../../../lib/policy/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { select } from "../../../helper/ledger.ts";
import { fromRoot } from "../../../helper/repo.ts";
import {
  ANY,
  contractOf,
  exec,
  type GateFixture,
  http,
  RESPONSE,
  rule,
  withGate,
} from "../../../helper/session_gate.ts";

Deno.test("an event is completed, decided, told and in the ledger when its passage is there", () =>
  withGate(
    rule("profiles", "no-post", "block", 'http.request.method == "POST"'),
    async ({ gate, ledger, path, notices }) => {
      const { allowed, event, decision } = await gate.decide(http("example.com", "POST"));
      assertEquals([allowed, decision.decision, decision.rule.id], [false, "block", "no-post"]);
      const { session_id, vm_id, profile_id, profile_revision, sequence, actor, enforceability } =
        event.common;
      assertEquals(
        [session_id, vm_id, profile_id, profile_revision, sequence, actor, enforceability],
        ["session-1", "session-1", "code", "1.2.3", 1, "vm", "inline_blockable"],
      );
      assertEquals(notices.map(({ type }) => type), ["security-event"]);
      await ledger.flush();
      const why = await readWhy(path, event.common.event_id);
      assertEquals([why.event, why.record], [event, decision]);
    },
  ));

Deno.test("a passage holds the rules' rewrites, and so does the ledger", () =>
  withGate(
    rule(
      "profiles",
      "v2",
      "rewrite",
      ANY,
      'rewrite = [{op = "set", path = "http.request.path", value = "/v2"}]',
    ),
    async ({ gate, ledger, path }) => {
      const draft = http();
      const passage = await gate.decide(draft);
      const { allowed, event } = passage;
      assertEquals([allowed, event.http?.request.url, draft.http?.request.path], [
        true,
        "https://example.com/v2",
        "/",
      ]);
      passage.finish({ response: RESPONSE });
      await ledger.flush();
      const [read] = (await readEvents(path)).events;
      assertEquals([read.http?.request.path, read.http?.response?.status], ["/v2", 200]);
      assertEquals(Object.keys(read.outcome!), ["duration_ms"]);
    },
  ));

Deno.test("a preview says what would be, records nothing and asks nobody", () =>
  withGate(
    rule("profiles", "ask", "ask", 'http.request.method == "POST"'),
    async ({ gate, ledger, path, notices }) => {
      assertEquals(gate.preview(http()).allowed, true);
      const asked = gate.preview(http("example.com", "POST"));
      assertEquals([asked.allowed, asked.decision.decision], [false, "ask"]);
      await ledger.flush();
      assertEquals([notices, gate.asks.pending(), (await readEvents(path)).events], [[], [], []]);
    },
  ));

Deno.test("what code refuses no rule lets go, and what has happened is only observed", () =>
  withGate(rule("corp", "all", "allow", ANY), async ({ gate, ledger, path }) => {
    const refusal = { id: "guard-smuggling", reason: "two lengths", remedy: "send one" };
    const { decision, event_id } = gate.refuse(http(), refusal);
    assertEquals(decision, "block");
    const seen = gate.observe(exec("ls"));
    assertEquals(seen.common.enforceability, "observe_only");
    await ledger.flush();
    const { record } = await readWhy(path, event_id) as { record?: Record<string, unknown> };
    assertEquals([record?.decision, record?.remedy], ["block", "send one"]);
    const [, observed] = (await readEvents(path)).events;
    assertEquals([observed, "decision" in observed], [seen, false]);
  }));

Deno.test("what is observed ends only if it is given an outcome", () =>
  withGate("", async ({ gate, ledger, path }) => {
    gate.observe(exec("ls"));
    const { common } = gate.observe(exec("pwd"), { response: { exit_code: 0 } });
    await ledger.flush();
    assertEquals(await select(path, "SELECT event_id FROM outcomes"), [{ event_id: common.event_id }]);
  }));

Deno.test("listeners are told an event with its decision and how long that took, and an observed one without", async () => {
  const gate = new TestGate();
  gate.refuse(http(), { id: "guard-smuggling", reason: "two lengths", remedy: "send one" });
  gate.observe(exec("ls"));
  assertEquals(
    gate.notices.flatMap(({ type, payload }) => type === "security-event" ? [Object.keys(payload)] : []),
    [["event", "decision"], ["event"]],
  );
  await gate.decide(http());
  const { payload } = gate.notices.findLast(({ type }) => type === "security-event")!;
  const { decided_ms = -1 } = payload as { decided_ms?: number };
  assert(decided_ms >= 0, JSON.stringify(payload));
});

Deno.test("an ask that is allowed: how the event ended and who let it go are one outcome", () =>
  withGate(rule("profiles", "ask", "ask", ANY), async ({ gate, ledger, path, notices }) => {
    const deciding = gate.decide(http());
    const [ask] = gate.asks.pending();
    await ledger.flush();
    assertEquals((await readEvents(path)).events.map(({ decision }) => decision), ["ask"]);
    gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
    const passage = await deciding;
    const { allowed, decision } = passage;
    assertEquals([allowed, decision.decision, decision.rule.id], [true, "allow", "ask"]);
    passage.finish({ response: RESPONSE });
    await ledger.flush();
    const [read] = (await readEvents(path)).events;
    assertEquals([read.decision, read.http?.response?.status], ["allow", 200]);
    assertEquals(typeof read.outcome?.duration_ms, "number");
    assertEquals(
      notices.flatMap(({ type, payload }) => type === "ask" ? [(payload as { status: string }).status] : []),
      ["pending", "allowed"],
    );
    // Once is once.
    gate.decide(http());
    assertEquals(gate.asks.pending().length, 1);
  }));

Deno.test("a program that a person allowed is on record as allowed before it ends", () =>
  withGate(rule("profiles", "ask", "ask", ANY), async ({ gate, ledger, path }) => {
    const deciding = gate.decide(exec("ls"));
    const [ask] = gate.asks.pending();
    gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
    assertEquals((await deciding).allowed, true);
    await ledger.flush();
    assertEquals((await readEvents(path)).events.map(({ decision }) => decision), ["allow"]);
  }));

/** Ends of an ask without an allowance. */
const DENIALS: [string, (fixture: GateFixture, abort: AbortController) => void][] = [
  [
    "denied",
    ({ gate: { asks } }) => asks.resolve(asks.pending()[0].ask_id, { decision: "deny", scope: "once" }),
  ],
  ["aborted while it waits", (_, abort) => abort.abort()],
  ["left when the session closes", ({ close }) => void close()],
];
for (const [what, end] of DENIALS) {
  for (const draft of [http(), exec()]) {
    Deno.test(`an ask that is ${what} blocks ${draft.common.event_type}`, () =>
      withGate(rule("profiles", "ask", "ask", ANY), async (fixture) => {
        const { gate, path, close } = fixture;
        const abort = new AbortController();
        const deciding = gate.decide(draft, abort.signal);
        end(fixture, abort);
        const { allowed, decision } = await deciding;
        assertEquals([allowed, decision.decision, gate.asks.pending()], [false, "block", []]);
        await close();
        assertEquals((await readEvents(path, { denied: true })).events.length, 1);
        assertEquals(await verifyLedger(path), { ok: true, events: 1, sealed: true });
      }));
  }
}

Deno.test("an ask whose caller is gone before it begins waits for nobody", () =>
  withGate(rule("profiles", "ask", "ask", ANY), async ({ gate }) => {
    const { allowed } = await gate.decide(exec(), AbortSignal.abort());
    assertEquals([allowed, gate.asks.pending()], [false, []]);
  }));

Deno.test("a response that a rule blocks makes the event a blocked one", () =>
  withGate(
    rule("corp", "no-teapot", "block", "http.response.status == 418"),
    async ({ gate, ledger, path }) => {
      const passage = await gate.decide(http());
      assertEquals(passage.allowed, true);
      const response = { ...RESPONSE, status: 418 };
      const block = passage.review(response);
      assertEquals([block?.decision, block?.rule.id], ["block", "no-teapot"]);
      passage.finish({ response });
      await ledger.flush();
      const [read] = (await readEvents(path, { denied: true })).events;
      assertEquals([read.decision, read.rule_id, read.http?.response?.status], ["block", "no-teapot", 418]);
    },
  ));

Deno.test("other rules hold at once; rules that are wrong leave those that were, and the detections", () =>
  withGate(rule("profiles", "no", "block", ANY), async ({ gate, findings }) => {
    assertEquals((await gate.decide(http())).allowed, false);
    gate.use(compileLayers(contractOf(rule("profiles", "yes", "allow", ANY))), [detecting("first")]);
    assertEquals((await gate.decide(http())).allowed, true);
    const twice = [detecting("second"), detecting("second")];
    const code = assertThrows(() => gate.use(compileLayers(contractOf("")), twice), SbxError).code;
    assertEquals(code, "detection.conflict");
    assertEquals((await gate.decide(http())).allowed, true);
    assertEquals(findings(), ["first", "first"]);
    assertEquals(gate.counters().map(({ match_count }) => match_count), [2, 0]);
  }));

Deno.test("after a refresh events name the new revision, and findings the sinks of their pack", () =>
  withGate(rule("profiles", "yes", "allow", ANY), async ({ gate, notices }) => {
    gate.use(compileLayers(contractOf("")), [detecting("first")], {
      exportRoutes: { [detecting("first").pack_id]: ["otlp"] },
      profileRevision: "9.0.0",
    });
    const { event } = await gate.decide(http());
    assertEquals(event.common.profile_revision, "9.0.0");
    const findings = notices.flatMap(({ type, payload }) => type === "finding" ? [payload] : []);
    assertEquals((findings[0] as { export_routes?: string[] }).export_routes, ["otlp"]);
  }));

/** Detections that find every request, and one more thing in its response. */
function detecting(id: string): DetectionIr {
  const find = (id: string, field_path: string, value: string | number): IrRule => ({
    id,
    source_id: id,
    title: id,
    event_family: "http",
    condition: "selection",
    matchers: [{ field_path, operator: "equals_any", values: [value], sigma_field: "x" }],
    severity: "low",
    confidence: "high",
    tags: [],
  });
  const rules = [
    find(id, "common.event_type", "http.request"),
    find(`${id}-response`, "http.response.status", RESPONSE.status),
  ];
  const pack = { schema: "sbx.detection.ir.v1", pack_id: "pack", pack_version: "1", owner: "user" } as const;
  return { ...pack, pack_status: "active", rules };
}

Deno.test("a Sigma rule of the category credential sees what the broker records", () =>
  withGate("", async ({ gate, findings }) => {
    const { ir, problems } = await compileRead(
      await readPack(fromRoot("fixtures/detection/credential.pack.yaml")),
    );
    assertEquals(problems, []);
    gate.use(compileLayers(contractOf("")), [ir!]);
    const record = (outcome: "injected" | "denied", reason?: string) =>
      gate.observe({
        common: { event_type: "credential.substitution", source_engine: "network", actor: "vm" },
        credential: {
          substitution: {
            provider: "github",
            credential_ref: "credential:blake3:00",
            host: "api.github.com",
            outcome,
            reason,
          },
        },
      });
    record("injected");
    assertEquals(findings(), []);
    record("denied", "revoked");
    assertEquals(findings(), ["dead-credential"]);
  }));

Deno.test("detections look at an event before its response and after, and each finding is made once", () =>
  withGate("", async ({ gate, ledger, path, findings }) => {
    gate.use(compileLayers(contractOf("")), [detecting("hit")]);
    const passage = await gate.decide(http());
    assertEquals(findings(), ["hit"]);
    passage.finish({ response: RESPONSE });
    assertEquals(findings(), ["hit", "hit-response"]);
    gate.observe(exec());
    await ledger.flush();
    assertEquals((await readFindings(path)).map(({ rule_id }) => rule_id), ["hit", "hit-response"]);
    assertEquals(gate.counters().map(({ match_count }) => match_count), [1, 1]);
  }));
