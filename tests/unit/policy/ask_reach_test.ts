/** Answers for a path or a method: what they cover, and that no spelling of a guest reaches past that. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { AskQueue } from "../../../lib/policy/ask/queue.ts";
import { AskInForce } from "../../../lib/policy/ask/schema.ts";
import { completeEvent } from "../../../lib/policy/author/fixture.ts";
import { savedRule } from "../../../lib/policy/author/mod.ts";
import { type AskAnswer, compilePolicy, type Rule } from "../../../lib/policy/mod.ts";

const asking = (layer: "corp" | "profile" = "profile"): Rule => ({
  ...{ id: "rest", layer, name: "rest", action: "ask", match: "has(http.request)", enabled: true },
  priority: layer === "corp" ? -10 : 900,
});
let number = 0;
const request = (
  path: string,
  { method = "GET", host = "a.example", port = 443, scheme = "https" } = {},
): Event =>
  completeEvent({
    schema_version: 1,
    common: {
      event_type: "http.request",
      event_id: (++number).toString(16).padStart(12, "0"),
      session_id: "s",
    },
    http: { request: { method, scheme, host, port, path, url: `${scheme}://${host}:${port}${path}` } },
  });
const decide = async (queue: AskQueue, each: Event, layer: "corp" | "profile" = "profile") =>
  (await queue.ask(each, compilePolicy([asking(layer)]).evaluate(each).decision)).decision;
const codeOf = (run: () => unknown) => assertThrows(run, SbxError).code;

/** Requests that an answer to the ask about `GET https://a.example:443/repos/x` covers. */
const CASES: { answer: Pick<AskAnswer, "of" | "path">; covered: Event[]; others: Event[] }[] = [
  {
    answer: { of: "path" },
    covered: [request("/repos/x"), request("/repos/x/"), request("/repos/x/y", { method: "POST" })],
    others: [request("/repos"), request("/repos/xy"), request("/repos/x%2Fy"), request("/other/repos/x")],
  },
  {
    answer: { of: "path", path: "/repos" },
    covered: [request("/repos"), request("/repos/y/z")],
    others: [request("/"), request("/repos2"), request("/repos/x", { host: "b.example" })],
  },
  {
    answer: { of: "path", path: "/" },
    covered: [request("/"), request("/any", { method: "DELETE" })],
    others: [request("/", { port: 8443 }), request("/", { scheme: "http", port: 443 })],
  },
  {
    answer: { of: "method" },
    covered: [request("/"), request("/any/path")],
    others: [request("/repos/x", { method: "POST" }), request("/repos/x", { host: "b.example" })],
  },
];

for (const { answer, covered, others } of CASES) {
  const name = `an answer for ${answer.of} ${answer.path ?? ""}`.trim();
  Deno.test(`${name} covers its requests, waiting and later, and no others`, async () => {
    const queue = new AskQueue();
    const waiting = [request("/repos/x"), ...covered].map((each) => decide(queue, each));
    const [{ ask_id }] = queue.pending();
    queue.resolve(ask_id, { decision: "allow", scope: "session", ...answer });
    assertEquals(queue.pending(), []);
    const later = covered.map((each) => decide(queue, each));
    const asked = others.map((each) => decide(queue, each));
    assertEquals(queue.pending().length, others.length);
    queue.close();
    assertEquals(new Set(await Promise.all([...waiting, ...later])), new Set(["allow"]));
    assertEquals(new Set(await Promise.all(asked)), new Set(["block"]));
  });

  Deno.test(`${name}, saved as a rule, covers the same`, () => {
    const saved = savedRule(request("/repos/x"), asking(), answer.of, answer.path);
    const kept = { ...saved.rule, id: saved.id, layer: "profile", priority: 899 } as Rule;
    const policy = compilePolicy([asking(), kept]);
    const decisions = (events: Event[]) => events.map((each) => policy.evaluate(each).decision.decision);
    assertEquals(new Set(decisions(covered)), new Set(["allow"]));
    assertEquals(new Set(decisions(others)), new Set(["ask"]));
  });
}

Deno.test("answers in force: the lasting ones with their reach and end, until their time is over", async () => {
  let now = Date.UTC(2026, 0, 1);
  const queue = new AskQueue({ now: () => now });
  const waiting = ["/a", "/b", "/c", "/d"].map((path, at) =>
    decide(queue, request(path, { host: `h${at}.example` }))
  );
  const [a, b, c, d] = queue.pending().map(({ ask_id }) => ask_id);
  const by = { user: "ann", client: "sbx" };
  queue.resolve(a, { decision: "allow", scope: "minutes", minutes: 5 }, by);
  queue.resolve(b, { decision: "deny", scope: "session", of: "host" });
  queue.resolve(c, { decision: "allow", scope: "once" });
  queue.resolve(d, { decision: "allow", scope: "session", of: "path", path: "/" });
  await Promise.all(waiting);
  const listed = queue.inForce();
  assertEquals(
    listed.map(({ ask_id, answer, answered_by, until }) => [ask_id, answer, answered_by, until]),
    [
      [a, { decision: "allow", scope: "minutes", minutes: 5 }, by, "2026-01-01T00:05:00.000Z"],
      [b, { decision: "deny", scope: "session", of: "host" }, undefined, undefined],
      [d, { decision: "allow", scope: "session", of: "path", path: "/" }, undefined, undefined],
    ],
  );
  for (const each of listed) AskInForce.parse(each);
  now += 5 * 60_000;
  assertEquals(queue.inForce().map(({ ask_id }) => ask_id), [b, d]);
  assertEquals(queue.standing(b).answer.of, "host");
  queue.revoke(b);
  assertEquals(queue.inForce().map(({ ask_id }) => ask_id), [d]);
  const gone = assertThrows(() => queue.standing(b), SbxError);
  assertEquals(gone.code, "ask.not_found");
  queue.close();
  assertEquals(queue.inForce(), []);
});

Deno.test("the words of an ask name the whole origin, and the path that is covered", () => {
  const queue = new AskQueue();
  decide(queue, request("/repos/x"));
  const [{ covers_path, covers_method }] = queue.pending();
  assertEquals([covers_path, covers_method], [
    "every request to https://a.example:443/repos/x and below, of any method",
    "every GET request to https://a.example:443, of any path",
  ]);
  queue.close();
});

Deno.test("an answer for a path is for a folder of that path, for a time, and loosens no rule of corp", async () => {
  const queue = new AskQueue();
  const answers = [decide(queue, request("/repos/x")), decide(queue, request("/repos/x"), "corp")];
  const tunnel = decide(queue, request("", { method: "CONNECT" }));
  const [ours, corps, none] = queue.pending();
  const resolve = (ask: { ask_id: string }, answer: Partial<AskAnswer>) =>
    codeOf(() => queue.resolve(ask.ask_id, { decision: "allow", scope: "session", ...answer }));
  for (const path of ["/rep", "/repos/", "/repos/x/y", "/other", "/repos/../"]) {
    assertEquals(resolve(ours, { of: "path", path }), "ask.invalid", path);
  }
  assertEquals(resolve(ours, { path: "/repos" }), "ask.invalid");
  assertEquals(resolve(ours, { of: "method", path: "/repos" }), "ask.invalid");
  assertEquals(resolve(ours, { of: "path", scope: "once" }), "ask.invalid");
  assertEquals(resolve(none, { of: "path" }), "ask.invalid");
  assertEquals(resolve(corps, { of: "method" }), "policy.blocked");
  assertEquals(queue.pending().length, 3);
  queue.close();
  assertEquals(await Promise.all([...answers, tunnel]), ["block", "block", "block"]);
});

Deno.test("an ask that outlives its machine keeps its paths and method", async () => {
  const queue = new AskQueue();
  const left = decide(queue, request("/repos/x"));
  const next = new AskQueue();
  next.restore(queue.take());
  assertEquals(await left, "block");
  const [{ ask_id }] = next.pending();
  next.resolve(ask_id, { decision: "allow", scope: "session", of: "path", path: "/repos" });
  assertEquals(await decide(next, request("/repos/y")), "allow");
});
