/**
 * `request_access`: a person is asked, and exactly what the question showed is
 * allowed for the time of the answer.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { LocalServer } from "../../../lib/mcp/endpoint/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Draft } from "../../../lib/policy/mod.ts";
import { AccessRequests } from "../../../lib/session/access.ts";
import { TestGate } from "../../helper/gate.ts";
import { http } from "../../helper/policy.ts";
import { eventually } from "../../helper/sbx.ts";

const PROFILE_RULES = `
[corp.rules.never]
action = "block"
match = 'http.request.host == "evil.example"'

[profiles.rules.all]
action = "block"
match = 'has(http.request) && http.request.host != "open.example" || has(dns.request)'
`;

function setUp(RULES = PROFILE_RULES, waitMs?: number) {
  const gate = new TestGate(RULES);
  const access: AccessRequests = new AccessRequests({
    gate,
    ...waitMs !== undefined && { waitMs },
    scrub: (text) => text.replaceAll("sk-secret", "[redacted]"),
    apply: () => gate.use(compilePolicy([...parseRules(RULES, "f.toml"), ...access.rules]), []),
  });
  const server = new LocalServer({ ask: access.ask });
  const call = async (args: Record<string, unknown>) => {
    const result = await server.callTool("local__request_access", args, {
      signal: new AbortController().signal,
    });
    return (result as { content: { text: string }[] }).content[0].text;
  };
  const lookUp = (qname: string, answers: string[]) =>
    gate.preview({
      common: { event_type: "dns.query", source_engine: "network" },
      dns: { request: { qname, qtype: "A", transport: "udp" }, response: { rcode: "NOERROR", answers } },
    }).decision.decision;
  const decide = (request: object) => gate.preview(http(request) as Draft).decision.decision;
  return { gate, access, call, decide, lookUp };
}

const WANT = { host: "API.example.com", path: "/a", why: "the docs\u001b[2J\nof the API" };
const GET = { host: "api.example.com", method: "GET", scheme: "https", port: 443, path: "/a" };

Deno.test("an allowed request is allowed alone, for the time of the answer", async () => {
  const { gate, access, call, decide } = setUp();
  assertEquals(decide(GET), "block");
  const answer = call(WANT);
  const [ask] = gate.asks.pending();
  assertEquals(ask.subject, "GET https://api.example.com/a");
  assertEquals(ask.covers, "GET https://api.example.com:443/a, with any query, headers and body");
  assertEquals(ask.reason, "a program of the VM asks for access");
  assertEquals(ask.why, "the docs�[2J of the API");
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "minutes", minutes: 5 });
  assertEquals(await answer, "your user allowed it for 5 minutes");
  assertEquals(
    [{}, { query: "x=1" }, { path: "/b" }, { method: "POST" }, { host: "b.example.com" }, { port: 80 }].map(
      (change) => decide({ ...GET, ...change }),
    ),
    ["allow", "allow", "block", "block", "block", "block"],
  );
  assertEquals(await call(WANT), "it is allowed already: send the request");
  access.close();
});

Deno.test("a question that a saved rule answers meanwhile ends; others stay, also where rules block now", async () => {
  const rules = (saved: string) => `
[profiles.rules.all]
priority = 900
action = "ask"
match = 'has(http.request)'
${saved}`;
  const { gate, access, call } = setUp(rules(""));
  const answers = [call(WANT), call({ ...WANT, path: "/b" })];
  const saved = rules(`
[profiles.rules.saved]
action = "allow"
match = 'http.request.path == "/a"'

[profiles.rules.never]
action = "block"
match = 'http.request.path == "/b"'
`);
  gate.use(compilePolicy(parseRules(saved, "f.toml")), []);
  assertEquals(await answers[0], "it is allowed already: send the request");
  assertEquals(gate.asks.pending().map(({ subject }) => subject), ["GET https://api.example.com/b"]);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "once" });
  assertStringIncludes(await answers[1], "your user denied it");
  assertEquals(access.rules, []);
  access.close();
});

Deno.test("a denial, corp's rules, private addresses and wrong arguments ask or allow nothing", async () => {
  const { gate, access, call, decide } = setUp();
  const answer = call({ ...WANT, path: "/no?x" });
  assertStringIncludes(await answer, "path without query");
  const denied = call(WANT);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "deny", scope: "once" });
  assertStringIncludes(await denied, "your user denied it");
  for (
    const [args, text] of [
      [{ ...WANT, host: "evil.example" }, 'rule "never"'],
      [{ ...WANT, host: "169.254.169.254" }, "private addresses"],
      [{ ...WANT, host: "0x7f000001" }, "private addresses"],
      [{ ...WANT, host: "a b" }, "name of a host"],
      [{ ...WANT, host: "sk-secret.example" }, "name of a host"],
      [{ ...WANT, method: "CONNECT" }, "one of GET"],
      [{ ...WANT, path: "/../x" }, "path without query"],
      [{ host: "x.example" }, '"why" must be a text'],
    ] as const
  ) assertStringIncludes(await call(args), text);
  assertEquals([gate.asks.pending().length, access.rules.length, decide(GET)], [0, 0, "block"]);
  access.close();
});

Deno.test("questions are few: two at once, and a call that is cancelled takes its question back", async () => {
  const { gate, access } = setUp();
  const aborts = [1, 2].map(() => new AbortController());
  const request = (path: string) => ({ host: "api.example.com", method: "GET", path, why: "x" });
  const asked = aborts.map(({ signal }, at) => access.ask(request(`/${at}`), signal, () => {}));
  await assertRejects(
    () => access.ask(request("/3"), new AbortController().signal, () => {}),
    SbxError,
    "at once",
  );
  assertEquals(gate.asks.pending().length, 2);
  for (const abort of aborts) abort.abort();
  for (const each of asked) await assertRejects(() => each, SbxError, "blocked by policy");
  assertEquals(gate.asks.pending().length, 0);
  for (let at = 0; at < 18; at++) {
    const abort = new AbortController();
    const each = access.ask(request(`/x${at}`), abort.signal, () => {});
    abort.abort();
    await assertRejects(() => each, SbxError);
  }
  await assertRejects(
    () => access.ask(request("/y"), new AbortController().signal, () => {}),
    SbxError,
    "an hour",
  );
  access.close();
});

Deno.test("access to a whole host is shown as that, and gives neither another host nor a private address", async () => {
  const { gate, access, call, decide, lookUp } = setUp();
  const answer = call({ host: "api.example.com", why: "all of it", host_access: true });
  const [ask] = gate.asks.pending();
  assertEquals(ask.subject, "any request to https://api.example.com");
  assertEquals(ask.covers, "every request to api.example.com, and lookups of its addresses");
  assertEquals([ask.covers_path, ask.covers_method, ask.covers_host], [undefined, undefined, ask.covers]);
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
  assertEquals(await answer, "your user allowed it for 10 minutes");
  assertEquals(
    [decide(GET), decide({ ...GET, method: "POST", path: "/z" }), decide({ ...GET, host: "b.example.com" })],
    ["allow", "allow", "block"],
  );
  assertEquals(
    [
      lookUp("api.example.com", ["8.8.4.4"]),
      lookUp("api.example.com", ["192.168.1.1"]),
      lookUp("b.test", []),
    ],
    ["allow", "block", "block"],
  );
  access.close();
});

const ASKING = `
[profiles.rules.first]
action = "ask"
reason = "someone looks first"
match = 'http.request.host == "api.example.com"'

[corp.rules.each]
action = "ask"
match = 'http.request.host == "corp.example"'
`;

Deno.test("what a rule asks about is asked at once, with the reason; the answer is for the request that waits too", async () => {
  const { gate, access, call, decide } = setUp(ASKING);
  const draft = http(GET) as Draft;
  const held = await gate.decide(draft, undefined, undefined, 0);
  assertEquals(held.decision.answered?.open, true);
  const answer = call({ ...WANT, why: "to read the docs" });
  const [left, ask] = gate.asks.pending();
  assertEquals([ask.rule_id, ask.reason, ask.why], ["first", "someone looks first", "to read the docs"]);
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
  assertEquals(await answer, "your user allowed it for 10 minutes");
  assertEquals([left.status, gate.asks.pending().length, decide(GET)], ["allowed", 0, "allow"]);
  assertEquals(
    await call({ ...WANT, host: "corp.example" }),
    "your user is asked when you send the request",
  );
  access.close();
});

Deno.test("a question outlives the call that waited in vain, and the next call has its answer", async () => {
  const { gate, access, call, decide } = setUp(undefined, 0);
  assertStringIncludes(await call(WANT), "stays open until");
  assertStringIncludes(await call({ ...WANT, why: "again" }), gate.asks.pending()[0].ask_id);
  assertEquals(gate.asks.pending().length, 1);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "session" });
  await eventually("it is allowed, though no call waited", () => decide(GET) === "allow");
  assertEquals(await call(WANT), "it is allowed already: send the request");
  access.close();
});
