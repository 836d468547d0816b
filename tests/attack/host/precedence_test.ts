/** Rules of a profile that undo what corp's rules do, or hide what they find. */
import { assertEquals } from "@std/assert";
import { REASON } from "../../../lib/credential/mod.ts";
import type { Draft } from "../../../lib/policy/mod.ts";
import { ir, rule } from "../../helper/detection.ts";
import { httpRequest } from "../../helper/event.ts";
import { TestGate } from "../../helper/gate.ts";

const request = (path = "/", text = "the secret plan"): Draft => ({
  common: { event_type: "http.request", source_engine: "network" },
  http: {
    request: {
      ...httpRequest({ method: "POST", host: "api.example.com", path }),
      body: { state: "text", text, truncated: false },
    },
  },
});

const rewrite = (layer: string, ...changes: string[]) =>
  `[${layer}]\naction = "rewrite"\nmatch = 'has(http.request)'\nrewrite = [${changes.join(", ")}]\n`;
const set = (path: string, value: string) => `{ op = "set", path = "${path}", value = "${value}" }`;
const replace = (pattern: string, value: string) =>
  `{ op = "replace", path = "http.request.body.text", pattern = "${pattern}", value = "${value}" }`;

Deno.test("a rewrite of a profile does not undo one of corp", async (t) => {
  const host = (name: string) => set("http.request.host", name);
  await t.step("set", async () => {
    const rules = rewrite("corp.rules.proxy", host("proxy.corp.example")) +
      rewrite("profiles.rules.direct", host("evil.example"));
    const { event } = await new TestGate(rules).decide(request());
    assertEquals(event.http!.request.host, "proxy.corp.example");
    assertEquals(event.http!.request.url, "https://proxy.corp.example/");
  });
  await t.step("replace", async () => {
    for (const undo of [replace("hidden", "secret"), set("http.request.body.text", "all of the secret")]) {
      const rules = rewrite("corp.rules.hide", replace("secret", "hidden")) +
        rewrite("profiles.rules.show", undo);
      const { event } = await new TestGate(rules).decide(request());
      assertEquals(event.http!.request.body.text!.includes("secret"), false);
    }
  });
  await t.step("other fields, and rules of one profile, as before", async () => {
    const rules = rewrite("corp.rules.hide", replace("secret", "hidden")) +
      rewrite("profiles.rules.a", set("http.request.query", "a")) +
      rewrite("profiles.rules.b", set("http.request.query", "b"), replace("plan", "idea"));
    const { event } = await new TestGate(rules).decide(request());
    assertEquals([event.http!.request.query, event.http!.request.body.text], ["b", "the hidden idea"]);
  });
});

Deno.test("no rule of a profile hides a finding by its id", async (t) => {
  const found = (level: string, match: string) =>
    `action = "allow"\ndetection_level = "${level}"\nmatch = '${match}'\n`;
  const ids = (gate: TestGate) =>
    gate.notices.flatMap((notice) => notice.type === "finding" ? [notice.payload] : [])
      .map(({ finding_id, pack_id, severity }) => {
        return { id: finding_id.replace(/-[0-9a-f]{12}-/, "-E-"), pack_id, severity };
      });
  await t.step("of corp's rule on responses", async () => {
    const gate = new TestGate(
      `[corp.rules.leak]\n${found("critical", "http.response.status == 200")}` +
        `[profiles.rules.leak]\n${found("informational", "has(http.request)")}`,
    );
    const passage = await gate.decide(request());
    passage.review({ status: 200, bytes: 0, headers: {}, body: { state: "missing", truncated: false } });
    assertEquals(ids(gate), [
      { id: "finding-E-leak:policy.profile", pack_id: "policy.profile", severity: "info" },
      { id: "finding-E-leak", pack_id: "policy.corp", severity: "critical" },
    ]);
  });
  await t.step("of a rule on another reading of a path", async () => {
    const gate = new TestGate(
      `[corp.rules.admin]\naction = "block"\ndetection_level = "high"\nmatch = 'http.request.path == "/admin"'\n` +
        `[profiles.rules.admin]\n${found("informational", "has(http.request)")}`,
    );
    await gate.decide(request("/%2Fadmin"));
    assertEquals(ids(gate).map(({ id }) => id).sort(), ["finding-E-admin", "finding-E-admin:policy.profile"]);
  });
  await t.step("of a detection", async () => {
    const gate = new TestGate(`[profiles.rules.exfil]\n${found("informational", "has(http.request)")}`, {
      detections: [ir([rule("exfil", { "http.request.method": "POST" }, { severity: "critical" })])],
    });
    await gate.decide(request());
    assertEquals(ids(gate).map(({ id }) => id), ["finding-E-exfil:policy.profile", "finding-E-exfil"]);
  });
  await t.step("of a decoy", () => {
    const gate = new TestGate(
      `[profiles.rules.credential-decoy]\n${found("informational", "has(credential.substitution)")}`,
    );
    gate.observe({
      common: { event_type: "credential.substitution", source_engine: "network" },
      credential: {
        substitution: {
          provider: "anthropic",
          credential_ref: "credential:blake3:x",
          outcome: "denied",
          reason: REASON.decoy,
        },
      },
    });
    assertEquals(ids(gate).map(({ id }) => id), ["finding-E-credential-decoy"]);
  });
});
