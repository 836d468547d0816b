/** One-line subjects of events, and the scopes of answers to asks about them. */
import { assertEquals } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { COVERS_MAX } from "../../../lib/policy/ask/limit.ts";
import { scopeOf } from "../../../lib/policy/ask/scope.ts";
import { subjectLine, subjectWithError } from "../../../lib/policy/decision/mod.ts";
import { http } from "../../helper/policy.ts";

const of = (event_type: string, family: string, body: object): Event =>
  ({ common: { event_type }, [family]: body }) as never;

const labelled = (labels: object, event_type: string, family: string, body: object): Event =>
  ({ common: { event_type, labels }, [family]: body }) as never;

Deno.test("an event has its subject on one line", () => {
  const request = { method: "GET", url: "https://a.test/" };
  const model = { provider: "anthropic", model: "m", operation: "messages" };
  const call = { method: "tools/call", server_name: "files", namespaced_tool_name: "files__read" };
  const tokens = { status: 200, input_tokens: 3, output_tokens: 4 };
  const cases: [event: object, line: string][] = [
    [of("http.request", "http", { request }), "GET https://a.test/"],
    [
      of("http.request", "http", { request, response: { status: 204, bytes: 0 } }),
      "GET https://a.test/ → 204 0 B",
    ],
    [of("dns.query", "dns", { request: { qtype: "A", qname: "a.test" } }), "A a.test"],
    [
      of("dns.query", "dns", {
        request: { qtype: "A", qname: "a.test" },
        response: { rcode: "NOERROR", answers: ["192.0.2.1", "192.0.2.2"] },
      }),
      "A a.test → 192.0.2.1 192.0.2.2",
    ],
    [
      of("dns.query", "dns", {
        request: { qtype: "A", qname: "a.test" },
        response: { rcode: "NXDOMAIN", answers: [] },
      }),
      "A a.test → NXDOMAIN",
    ],
    [of("mcp.tool_call", "mcp", { request: call }), "tools/call files__read"],
    [
      of("mcp.event", "mcp", {
        request: { ...call, namespaced_tool_name: "" },
        response: { is_error: true },
      }),
      "tools/call files → error",
    ],
    [of("mcp.tool_call", "mcp", { request: call, response: { is_error: false } }), "tools/call files__read"],
    [
      of("model.call", "model", { request: model, response: { ...tokens, estimated_cost_micros: 4500 } }),
      "anthropic m messages → 200 3 + 4 tokens $0.0045",
    ],
    [
      of("model.call", "model", { request: model, response: tokens }),
      "anthropic m messages → 200 3 + 4 tokens at an unknown price",
    ],
    [
      of("model.call", "model", { request: model, response: { input_tokens: 3 } }),
      "anthropic m messages 3 + 0 tokens at an unknown price",
    ],
    [
      of("model.call", "model", { request: model, response: { output_tokens: 3 } }),
      "anthropic m messages at an unknown price",
    ],
    [of("model.call", "model", { request: model, response: { status: 529 } }), "anthropic m messages → 529"],
    [of("file.activity", "file", { activity: { operation: "write", path: "/x" } }), "write /x"],
    [
      labelled({ from: "/y" }, "file.activity", "file", { activity: { operation: "rename", path: "/x" } }),
      "rename /x (from /y)",
    ],
    [
      labelled({ folded: "23" }, "file.activity", "file", { activity: { operation: "write", path: "/x" } }),
      "write /x (23 times)",
    ],
    [
      labelled({ folded: "23", failed: "2" }, "process.exec", "process", {
        activity: { operation: "exec", command: "/bin/ls" },
      }),
      "exec /bin/ls (23 times, 2 failed)",
    ],
    [
      labelled({ activity: "gap", why: "it ended" }, "process.exit", "process", {
        activity: { operation: "exit", command: "/a.js" },
      }),
      "exit /a.js (report: gap, it ended)",
    ],
    [
      of("process.exec", "process", {
        activity: { operation: "exec", executable: "/bin/ls", command: "ls -l" },
      }),
      "exec ls -l",
    ],
    [
      of("process.exit", "process", { activity: { operation: "exit", executable: "/bin/ls", exit_code: 0 } }),
      "exit /bin/ls exit 0",
    ],
    [
      of("credential.substitution", "credential", {
        substitution: {
          outcome: "denied",
          provider: "github",
          credential_ref: "c".repeat(30),
          host: "a.test",
          reason: "no",
        },
      }),
      `denied github ${"c".repeat(26)} for a.test no`,
    ],
    [of("credential.substitution", "credential", { substitution: { outcome: "denied" } }), "denied"],
    [{ common: { event_type: "new.kind" }, new: { a: 1 } }, '{"a":1}'],
    [{}, "{}"],
  ];
  for (const [event, line] of cases) assertEquals(subjectLine(event), line);
  const listed = { ...of("http.request", "http", { request }), outcome: { error: "reset" } };
  assertEquals(subjectWithError(listed), "GET https://a.test/ (reset)");
  assertEquals(subjectWithError({ ...listed, outcome: {} }), "GET https://a.test/");
});

const RULE = { id: "r", name: "n", layer: "profile" } as const;

Deno.test("an answer covers the events that its question names", () => {
  const call = {
    method: "tools/call",
    server_name: "files",
    tool_name: "read",
    namespaced_tool_name: "f__read",
  };
  const model = { provider: "anthropic", api_family: "messages", model: "m", operation: "chat" };
  const exec = {
    operation: "exec",
    executable: "/bin/ls",
    command: "ls -l",
    argv: ["ls", "-l"],
    cwd: "/root",
  };
  /** Its fields, each of which another answer is needed for. */
  const cases: [
    type: string,
    family: string,
    part: string,
    fields: Record<string, unknown>,
    covers: string,
  ][] = [
    [
      "http.request",
      "http",
      "request",
      { method: "PUT", scheme: "https", host: "a.test", port: 8443, path: "/x" },
      "PUT https://a.test:8443/x, with any query, headers and body",
    ],
    [
      "http.request",
      "http",
      "request",
      { method: "CONNECT", scheme: "tls", host: "::1", port: 443 },
      "CONNECT tls://[::1]:443",
    ],
    ["dns.query", "dns", "request", { qtype: "A", qname: "a.test" }, "A and AAAA a.test"],
    ["mcp.tool_call", "mcp", "request", call, "tools/call f__read, with any arguments"],
    [
      "mcp.event",
      "mcp",
      "request",
      { method: "tools/call", server_name: "files", tool_name: "", namespaced_tool_name: "" },
      "tools/call files, with any arguments",
    ],
    ["model.call", "model", "request", model, "anthropic m chat, with any content"],
    ["file.activity", "file", "activity", { operation: "write", path: "/x" }, "write /x, with any content"],
    ["process.exec", "process", "activity", exec, "exec ls -l in /root"],
  ];
  for (const [type, family, part, fields, covers] of cases) {
    const event = (body: object) => of(type, family, { [part]: body });
    const scope = scopeOf(event(fields), RULE)!;
    assertEquals(scope.covers, covers);
    assertEquals(scopeOf(event({ ...fields, extra: 1 }), RULE)!.key, scope.key);
    for (const name of Object.keys(fields)) {
      const other = scopeOf(event({ ...fields, [name]: "other" }), RULE)!;
      assertEquals(other.key === scope.key, false, `${type} ${name}`);
    }
  }
});

Deno.test("an answer covers the events of one rule, with its reason, and no others", () => {
  const key = (more: Partial<Parameters<typeof scopeOf>[1]>) => scopeOf(http(), { ...RULE, ...more })!.key;
  assertEquals(key({}), key({ file: "x", line: 1 }));
  assertEquals(key({ name: "other", reason: "why" }), key({ reason: "why" }));
  for (const other of [{ id: "x" }, { layer: "corp" as const }, { name: "x" }, { reason: "x" }]) {
    assertEquals(key(other) === key({}), false, JSON.stringify(other));
  }
});

Deno.test("an event without a subject, or with one too long to be read, has no scope", () => {
  for (const [type, family] of [["http.request", "http"], ["mcp.event", "mcp"], ["model.call", "model"]]) {
    assertEquals(scopeOf(of(type, "none", {}), RULE), undefined, family);
  }
  for (const type of ["dns.query", "file.activity", "process.exec", "credential.substitution"]) {
    assertEquals(scopeOf(of(type, "none", {}), RULE), undefined, type);
  }
  assertEquals(scopeOf(http({ host: "" }), RULE), undefined);
  const query = (qname: string) => of("dns.query", "dns", { request: { qtype: "A", qname } });
  const longest = "a".repeat(COVERS_MAX - "A and AAAA ".length);
  assertEquals(scopeOf(query(longest), RULE)?.covers.length, COVERS_MAX);
  assertEquals(scopeOf(query(`${longest}a`), RULE), undefined);
  // The text is that of the event as it is shown; the key that of the event.
  const [secret, shown] = [http({ path: "/secret" }), http({ path: "/ref" })];
  const scope = scopeOf(secret, RULE, shown)!;
  assertEquals(scope.covers, scopeOf(shown, RULE)!.covers);
  assertEquals(scope.key, scopeOf(secret, RULE)!.key);
  assertEquals(scopeOf(secret, RULE, query("x")), undefined);
});
