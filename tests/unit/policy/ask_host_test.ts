/** One question a host: lookups of its addresses are one ask, and an answer may be for the whole host. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { AskQueue } from "../../../lib/policy/ask/queue.ts";
import { completeEvent } from "../../../lib/policy/author/fixture.ts";
import { savedRule } from "../../../lib/policy/author/mod.ts";
import { type AskAnswer, compilePolicy, type Rule } from "../../../lib/policy/mod.ts";

const SESSION = { scope: "session", of: "host" } as const;
const MATCH = "has(http.request) || has(dns.request)";
const rule = (layer: "corp" | "profile" = "profile", match = MATCH): Rule => ({
  ...{ id: "rest", layer, name: "rest", action: "ask", match, enabled: true },
  priority: layer === "corp" ? -10 : 900,
});
let number = 0;
const event = (type: Event["common"]["event_type"], family: object): Event =>
  completeEvent({
    schema_version: 1,
    common: { event_type: type, event_id: (++number).toString(16).padStart(12, "0"), session_id: "s" },
    ...family,
  });
const lookup = (qname: string, qtype = "A") =>
  event("dns.query", { dns: { request: { qname, qtype, transport: "udp" } } });
const request = (host: string, method = "GET", path = "/") =>
  event("http.request", {
    http: { request: { method, scheme: "https", host, port: 443, path, url: `https://${host}${path}` } },
  });
const decide = async (queue: AskQueue, each: Event, layer: "corp" | "profile" = "profile") =>
  (await queue.ask(each, compilePolicy([rule(layer)]).evaluate(each).decision)).decision;
const codeOf = (run: () => unknown) => assertThrows(run, SbxError).code;

Deno.test("lookups of both kinds of addresses are one question, also when they are sent again", async () => {
  const queue = new AskQueue();
  const all = [lookup("a.example"), lookup("a.example", "AAAA"), lookup("a.example")]
    .map((each) => decide(queue, each));
  const other = [lookup("a.example", "MX"), lookup("b.example")].map((each) => decide(queue, each));
  assertEquals(queue.pending().map(({ covers }) => covers), [
    "A and AAAA a.example",
    "MX a.example",
    "A and AAAA b.example",
  ]);
  queue.resolve(queue.pending()[0].ask_id, { decision: "allow", scope: "once" });
  assertEquals(await Promise.all(all), ["allow", "allow", "allow"]);
  queue.close();
  assertEquals(await Promise.all(other), ["block", "block"]);
});

Deno.test("a question stays while one of its lookups waits, and ends with the last", async () => {
  const queue = new AskQueue();
  const [first, second] = [lookup("a.example"), lookup("a.example", "AAAA")];
  const answers = [first, second].map((each) => decide(queue, each));
  queue.withdraw(first.common.event_id);
  assertEquals([await answers[0], queue.pending().length], ["block", 1]);
  queue.withdraw(second.common.event_id);
  assertEquals([await answers[1], queue.pending().length], ["block", 0]);
});

Deno.test("lookups that wait end with the machine, and its next one has the same question", async () => {
  const queue = new AskQueue();
  const answers = [lookup("a.example"), lookup("a.example", "AAAA")].map((each) => decide(queue, each));
  const kept = queue.take();
  assertEquals(await Promise.all(answers), ["block", "block"]);
  const next = new AskQueue();
  next.restore(kept);
  const [{ ask_id }] = next.pending();
  const again = decide(next, lookup("a.example"));
  assertEquals(next.pending().length, 1);
  next.resolve(ask_id, { decision: "allow", ...SESSION });
  assertEquals([await again, await decide(next, request("a.example"))], ["allow", "allow"]);
});

for (const [decision, expected] of [["allow", "allow"], ["deny", "block"]] as const) {
  Deno.test(`${decision} of a whole host is for its lookups and requests, and for no other host`, async () => {
    const queue = new AskQueue();
    const waiting = [lookup("a.example"), request("a.example", "POST", "/x")].map((each) =>
      decide(queue, each)
    );
    const [{ ask_id, covers_host }] = queue.pending();
    assertEquals(covers_host, "every request to a.example, and lookups of its addresses");
    queue.resolve(ask_id, { decision, ...SESSION });
    const later = [request("a.example"), lookup("a.example", "AAAA")].map((each) => decide(queue, each));
    const others = [request("b.example"), request("sub.a.example"), lookup("a.example", "TXT")]
      .map((each) => decide(queue, each));
    assertEquals(queue.pending().length, 3);
    queue.close();
    assertEquals(await Promise.all([...waiting, ...later]), Array(4).fill(expected));
    assertEquals(await Promise.all(others), ["block", "block", "block"]);
  });
}

Deno.test("an answer for a host has an end, is for an event of a host, and loosens no rule of corp", async () => {
  let now = 0;
  const queue = new AskQueue({ now: () => now });
  const answer = decide(queue, request("a.example"));
  const [{ ask_id }] = queue.pending();
  assertEquals(
    codeOf(() => queue.resolve(ask_id, { decision: "allow", scope: "once", of: "host" })),
    "ask.invalid",
  );
  queue.resolve(ask_id, { decision: "allow", scope: "minutes", minutes: 10, of: "host" });
  assertEquals([await answer, await decide(queue, lookup("a.example"))], ["allow", "allow"]);
  now = 10 * 60_000;
  const late = decide(queue, request("a.example"));
  const text = decide(queue, lookup("a.example", "TXT"));
  const corp = decide(queue, request("a.example"), "corp");
  const [, ofText, ofCorp] = queue.pending();
  const allow: AskAnswer = { decision: "allow", ...SESSION };
  assertEquals(codeOf(() => queue.resolve(ofText.ask_id, allow)), "ask.invalid");
  assertEquals(codeOf(() => queue.resolve(ofCorp.ask_id, allow)), "policy.blocked");
  queue.close();
  assertEquals(await Promise.all([late, text, corp]), ["block", "block", "block"]);
});

Deno.test("a rule saved for a host allows its requests and the lookups of its addresses", () => {
  const saved = savedRule(request("a.example", "POST", "/x"), rule(), "host");
  const policy = compilePolicy([
    rule(),
    { ...saved.rule, id: saved.id, layer: "profile", priority: 899 } as Rule,
  ]);
  const decisionOn = (each: Event) => policy.evaluate(each).decision.decision;
  assertEquals([request("a.example"), lookup("a.example", "AAAA")].map(decisionOn), ["allow", "allow"]);
  assertEquals(
    [request("b.example"), lookup("a.example", "TXT"), lookup("b.example")].map(decisionOn),
    ["ask", "ask", "ask"],
  );
  assertEquals(codeOf(() => savedRule(lookup("a.example", "TXT"), rule(), "host")), "ask.invalid");
});
