import { assertEquals } from "@std/assert";
import { listFindings } from "../../../lib/service/record/ledger.ts";
import { http, rule, withGate } from "../../helper/session_gate.ts";

const LOUD = `[profiles.rules.loud]
action = "allow"
match = 'http.request.method == "PUT"'
detection_level = "high"
`;

Deno.test("findings: each with when its event was and what it is about, in their order, as many as are asked for", () =>
  withGate(LOUD, async ({ gate, ledger, path }) => {
    const hosts = Array.from({ length: 120 }, (_, at) => `h${at}.example.com`);
    for (const host of hosts) await gate.decide(http(host, "PUT"));
    await ledger.flush();
    const maker = { user: "ann", device: "desk", client: "sbx/1" };
    const entry = { id: "s", name: "dev", profile_id: "code", profile_revision: "1", created_at: "" };
    const listed = await listFindings(path, { get: () => Promise.resolve({ ...entry, ...maker }) });
    assertEquals(listed.map(({ subject }) => subject), hosts.map((host) => `PUT https://${host}/`));
    assertEquals(listed[0].decision, { outcome: "allow", rule_id: "loud", layer: "profile" });
    assertEquals(listed[0].vm_name, "dev");
    const [{ timestamp_unix_ms, event_type, severity, rule_id, made_by }] = listed;
    assertEquals(made_by, maker);
    assertEquals([event_type, severity, rule_id], ["http.request", "high", "loud"]);
    assertEquals(Math.abs(Date.now() - timestamp_unix_ms!) < 60_000, true);
    const damaged = { get: () => Promise.reject(new Error("the index is damaged")) };
    const first = await listFindings(path, damaged, 2);
    assertEquals(first.map(({ subject, made_by }) => [subject, made_by]), [
      ["PUT https://h0.example.com/", undefined],
      ["PUT https://h1.example.com/", undefined],
    ]);
  }));

Deno.test("findings: each says what was decided on its event, also while it waits for a person and after the answer", () => {
  const ask = rule("profiles", "wary", "ask", 'http.request.method == "PUT"', 'detection_level = "high"');
  const stop = rule("profiles", "stop", "block", 'http.request.method == "POST"', 'detection_level = "low"');
  const sessions = { get: () => Promise.resolve(undefined) };
  return withGate(ask + stop, async ({ gate, ledger, path }) => {
    const outcomes = async () => {
      await ledger.flush();
      return (await listFindings(path, sessions)).map(({ decision }) => decision?.outcome);
    };
    await gate.decide(http("a.example", "POST"));
    const waiting = Promise.withResolvers<string>();
    const asked = gate.decide(http("b.example", "PUT"), undefined, ({ ask_id }) => waiting.resolve(ask_id));
    const id = await waiting.promise;
    assertEquals(await outcomes(), ["block", "ask"]);
    gate.asks.resolve(id, { decision: "deny", scope: "once" });
    await asked;
    assertEquals(await outcomes(), ["block", "ask-denied"]);
  });
});
