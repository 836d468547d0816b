/** An answer of a person covers what the question showed, and nothing that a guest makes of it afterwards. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Draft } from "../../../lib/policy/mod.ts";
import { httpRequest, processExec } from "../../helper/event.ts";
import { RULES_FILE, TestGate } from "../../helper/gate.ts";
import { ANY, rule } from "../../helper/session_gate.ts";

const request = (overrides: Parameters<typeof httpRequest>[0]): Draft => ({
  common: { event_type: "http.request", source_engine: "network" },
  http: { request: httpRequest({ method: "POST", ...overrides }) },
});
const program = (overrides: Parameters<typeof processExec>[0]): Draft => ({
  common: { event_type: "process.exec", source_engine: "process" },
  process: { activity: processExec({ executable: "rm", command: "rm -rf x", ...overrides }) },
});
const call = (tool: string, method = "tools/call", args: Record<string, string> = {}): Draft => ({
  common: { event_type: "mcp.tool_call", source_engine: "mcp" },
  mcp: {
    request: {
      method,
      server_name: "files",
      tool_name: tool,
      namespaced_tool_name: `files__${tool}`,
      arguments: args,
    },
  },
});
const model = (name: string, operation = "messages"): Draft => ({
  common: { event_type: "model.call", source_engine: "model" },
  model: {
    request: {
      provider: "anthropic",
      api_family: "anthropic",
      model: name,
      operation,
      stream: false,
      messages_count: 1,
      tools_count: 0,
      body: { state: "missing", truncated: false },
    },
  },
});
const lookup = (qname: string, qtype = "A"): Draft => ({
  common: { event_type: "dns.query", source_engine: "network" },
  dns: { request: { qname, qtype, transport: "udp" } },
});
const file = (path: string, operation: "read" | "write" | "delete" = "write"): Draft => ({
  common: { event_type: "file.activity", source_engine: "file" },
  file: { activity: { operation, path, path_class: "workspace", name: "a", ext: "", byte_count: 1 } },
});

/** Approved events: the scope as it is shown, events inside and outside of it. */
const CASES: { approved: Draft; shown: string; inside: Draft[]; outside: Draft[] }[] = [
  {
    approved: request({ path: "/comments" }),
    shown: "POST https://example.com:443/comments, with any query, headers and body",
    inside: [request({ path: "/comments", query: "a=1" })],
    outside: [
      request({ path: "/admin/delete" }),
      request({ path: "/comments", host: "evil.example" }),
      request({ path: "/comments", port: 8443 }),
      request({ path: "/comments", scheme: "http" }),
      request({ path: "/comments", method: "DELETE" }),
    ],
  },
  {
    approved: program({ cwd: "/workspace" }),
    shown: "exec rm -rf x in /workspace",
    inside: [],
    outside: [
      program({ cwd: "/etc" }),
      program({ cwd: "/workspace", command: "rm -rf /" }),
      program({ cwd: "/workspace", argv: ["rm", "-rf x"] }),
    ],
  },
  {
    approved: call("read", "tools/call", { path: "/a" }),
    shown: "tools/call files__read, with any arguments",
    inside: [call("read", "tools/call", { path: "/b" })],
    outside: [call("write"), call("read", "prompts/get")],
  },
  {
    approved: model("claude-haiku"),
    shown: "anthropic claude-haiku messages, with any content",
    inside: [model("claude-haiku")],
    outside: [model("claude-opus"), model("claude-haiku", "batches")],
  },
  {
    approved: lookup("a.example"),
    shown: "A and AAAA a.example",
    inside: [lookup("a.example"), lookup("a.example", "AAAA")],
    outside: [lookup("b.example"), lookup("a.example", "TXT")],
  },
  {
    approved: file("/workspace/a"),
    shown: "write /workspace/a, with any content",
    inside: [file("/workspace/a")],
    outside: [file("/workspace/b"), file("/workspace/a", "delete")],
  },
];
for (const { approved, shown, inside, outside } of CASES) {
  Deno.test(`an answer for the session covers ${shown}, and no other event`, async () => {
    const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
    const first = gate.decide(approved);
    const [{ ask_id, covers }] = gate.asks.pending();
    assertEquals(covers, shown);
    gate.asks.resolve(ask_id, { decision: "allow", scope: "session" });
    assert((await first).allowed);
    for (const draft of inside) assert((await gate.decide(draft)).allowed, JSON.stringify(draft));
    const waiting = outside.map((draft) => gate.decide(draft));
    assertEquals(gate.asks.pending().length, outside.length);
    gate.close();
    assertEquals((await Promise.all(waiting)).map(({ allowed }) => allowed), outside.map(() => false));
  });
}

Deno.test("what is too long to be shown can be answered once only", async () => {
  const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
  const path = `/${"a".repeat(2000)}/harmless`;
  const first = gate.decide(request({ path }));
  const [{ ask_id, covers }] = gate.asks.pending();
  assertEquals(covers, undefined);
  const code =
    assertThrows(() => gate.asks.resolve(ask_id, { decision: "allow", scope: "session" }), SbxError).code;
  assertEquals(code, "ask.invalid");
  gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
  assert((await first).allowed);
  const second = gate.decide(request({ path }));
  assertEquals(gate.asks.pending().length, 1);
  gate.close();
  assertEquals((await second).allowed, false);
});

Deno.test("the question about a tool call shows its arguments", async () => {
  const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
  const waiting = gate.decide(call("write", "tools/call", { path: "/etc/passwd" }));
  assertStringIncludes(gate.asks.pending()[0].subject, 'files__write {"path":"/etc/passwd"}');
  gate.close();
  await waiting;
});

Deno.test("an ask waits for as long as its rule says", async () => {
  const gate = new TestGate(
    rule("profiles", "short", "ask", 'http.request.path == "/short"', "ask_timeout = 1") +
      rule("profiles", "long", "ask", 'http.request.path == "/long"', "ask_timeout = 86400") +
      rule("profiles", "usual", "ask", 'http.request.path == "/usual"'),
  );
  const waiting = ["/short", "/long", "/usual"].map((path) => gate.decide(request({ path })));
  const seconds = gate.asks.pending().map(({ created_at, expires_at }) =>
    (Date.parse(expires_at) - Date.parse(created_at)) / 1000
  );
  assertEquals(seconds, [1, 86_400, 60]);
  gate.close();
  await Promise.all(waiting);
});

for (const [action, seconds] of [["block", 5], ["ask", 0], ["ask", 86_401], ["ask", 1.5]] as const) {
  Deno.test(`ask_timeout = ${seconds} with action ${action} is an error of its rule`, () => {
    const code = assertThrows(
      () => new TestGate(rule("profiles", "a", action, ANY, `ask_timeout = ${seconds}`)),
      SbxError,
    ).code;
    assertEquals(code, "policy.invalid");
  });
}

Deno.test("no answer allows what a rule blocks that came while the person was asked", async () => {
  const gate = new TestGate(rule("profiles", "push", "ask", ANY));
  const asked = gate.decide(request({ path: "/push" }));
  const block = rule("profiles", "freeze", "block", 'http.request.path == "/push"');
  const [{ ask_id }] = gate.asks.pending();
  gate.use(compilePolicy(parseRules(block, RULES_FILE)), []);
  const late = () => gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
  assertEquals(assertThrows(late, SbxError).code, "ask.not_found");
  const { allowed, decision } = await asked;
  assertEquals([allowed, decision.rule.id], [false, "freeze"]);
  assertEquals(gate.entries[0].decision?.decision, "block");
});

Deno.test("an answer goes to the ask whose digest was shown, and to no other", async () => {
  const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
  const [read, other] = ["/harmless", "/admin/delete"].map((path) => gate.decide(request({ path })));
  const [harmless, dangerous] = gate.asks.pending();
  const answer = { decision: "allow", scope: "once" } as const;
  const code = assertThrows(
    () => gate.asks.resolve(dangerous.ask_id, answer, undefined, harmless.digest),
    SbxError,
  ).code;
  assertEquals([code, gate.asks.pending().length], ["ask.changed", 2]);
  gate.asks.resolve(harmless.ask_id, answer, undefined, harmless.digest);
  assert((await read).allowed);
  gate.close();
  assertEquals((await other).allowed, false);
});

Deno.test("digests differ where events do, also where the question on one line is the same", async () => {
  const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
  const long = `/${"a".repeat(2000)}`;
  const drafts = [
    ...[[["x-a", "1"]], [["x-a", "2"]]].map((headers) =>
      request({ path: "/", headers: Object.fromEntries(headers.map(([name, value]) => [name, [value]])) })
    ),
    request({ path: "/", query: "a=1" }),
    request({ path: `${long}/harmless` }),
    request({ path: `${long}/admin` }),
    call("write", "tools/call", { text: `${"b".repeat(2000)}1` }),
    call("write", "tools/call", { text: `${"b".repeat(2000)}2` }),
  ];
  const waiting = drafts.map((draft) => gate.decide(draft));
  const asks = gate.asks.pending();
  assertEquals(new Set(asks.map(({ digest }) => digest)).size, drafts.length);
  // A typing error in an id names no other ask, though ids of events count up.
  for (const { ask_id, event_id, digest } of asks) {
    assertEquals(ask_id, `ask-${event_id}-${digest.slice(0, 8)}`);
  }
  gate.close();
  await Promise.all(waiting);
});

Deno.test("an answer for one request does not let another one of its scope pass after a suspend", async () => {
  for (const isAnsweredFirst of [true, false]) {
    const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
    const { asks } = gate;
    const shown = request({ path: "/push", query: "dry_run=1" });
    const reset = new AbortController();
    const first = gate.decide(shown, reset.signal);
    asks.hold();
    reset.abort();
    await first;
    asks.release();
    const [{ ask_id, digest }] = asks.pending();
    const answer = () => asks.resolve(ask_id, { decision: "allow", scope: "once" }, undefined, digest);
    if (isAnsweredFirst) answer();
    const forged = gate.decide(request({ path: "/push", query: "force=1" }));
    const again = gate.decide(shown);
    if (!isAnsweredFirst) answer();
    assert((await again).allowed);
    gate.close();
    assertEquals((await forged).allowed, false);
  }
});

Deno.test("an ask about a body that is not shown whole does not outlive its request", async () => {
  for (
    const body of [
      { state: "text", text: "the beginning", size: 100_000, truncated: true },
      { state: "binary", size: 13, truncated: false },
    ] as const
  ) {
    const gate = new TestGate(rule("profiles", "ask", "ask", ANY));
    const upload = request({ method: "POST", path: "/upload", body });
    const reset = new AbortController();
    const first = gate.decide(upload, reset.signal);
    gate.asks.hold();
    reset.abort();
    await first;
    gate.asks.release();
    const left = gate.asks.pending();
    for (const { ask_id } of left) gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
    const other = gate.decide(upload);
    gate.close();
    assertEquals([left.length, (await other).allowed], [0, false], body.state);
  }
});
