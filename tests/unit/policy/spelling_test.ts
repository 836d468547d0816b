/**
 * Spellings of hosts, headers, methods and paths: contexts from outside are read
 * as events, literals are linted.
 */
import { assertEquals } from "@std/assert";
import { normalizeContext } from "../../../lib/event/mod.ts";
import { completeEvent, lintPolicy, parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

function lint(match: string) {
  const policy = compilePolicy(
    parseRules(`[profiles.rules.r]\naction = "block"\nmatch = '''${match}'''`, "r.toml"),
  );
  return lintPolicy(policy).filter(({ code }) => code === "spelling").map(({ severity, message }) => {
    assertEquals(severity, "warning");
    return message;
  });
}

Deno.test("a context from outside has names as events have them", () => {
  const context = {
    schema_version: 1 as const,
    common: { event_type: "http.request" as const },
    http: {
      request: { host: "API.Example.com.", headers: { "X-Key": ["1"], "x-key": ["2"], Accept: ["*/*"] } },
      response: { headers: { "Content-Type": ["text/plain"] } },
    },
  };
  const { http } = completeEvent(context);
  assertEquals(http!.request as unknown, {
    host: "api.example.com",
    headers: { "x-key": ["1", "2"], accept: ["*/*"] },
  });
  assertEquals(http!.response as unknown, { headers: { "content-type": ["text/plain"] } });
  const dns = { common: { event_type: "dns.query" as const }, dns: { request: { qname: "EXAMPLE.com." } } };
  assertEquals(normalizeContext(dns).dns.request.qname, "example.com");
  const plain = { common: { event_type: "http.request" as const }, http: { request: { host: "a.example" } } };
  assertEquals(normalizeContext(plain) === plain, true);
});

Deno.test("a rule matches a header that a context writes with capitals", () => {
  const rules = parseRules(
    `[profiles.rules.r]\naction = "block"\nmatch = '"1" in http.request.headers["x-key"]'`,
    "r.toml",
  );
  const event = completeEvent({
    schema_version: 1,
    common: { event_type: "http.request" },
    http: { request: { host: "a.example", headers: { "X-Key": ["1"] } } },
  });
  assertEquals(compilePolicy(rules).evaluate(event).decision.decision, "block");
});

Deno.test("literals that can never match are linted", () => {
  const cases: [match: string, message: string][] = [
    ['http.request.host == "API.example.com"', 'never has "API.example.com" in it; write "api.example.com"'],
    ['http.request.host == "example.com."', 'never has "example.com." in it; write "example.com"'],
    ['http.request.host == "0xcb007109"', 'never has "0xcb007109" in it; write "203.0.113.9"'],
    ['http.request.host == "[::1]"', 'never has "[::1]" in it; write "::1"'],
    ['http.request.host == "*.example.com"', 'never has "*.example.com" in it'],
    ['http.request.host.endsWith(".Example.com")', 'write ".example.com"'],
    ['!(http.request.host in ["a.example", "B.example"])', 'never has "B.example" in it; write "b.example"'],
    ['dns.request.qname == "Example.com."', 'write "example.com"'],
    ['http.request.method == "post"', 'write "POST"'],
    ['http.request.path == "/%61dmin"', 'write "/admin"'],
    ['http.request.path.startsWith("/@scope%2fname")', 'write "/@scope%2Fname"'],
    ['http.request.path.startsWith("//admin")', 'write "/admin"'],
    ['http.request.path == "/../admin"', 'never has "/../admin" in it'],
    ['http.request.headers["X-Key"].exists(v, v == "1")', 'write "x-key"'],
    ['"X-Key" in http.request.headers', 'write "x-key"'],
    ["has(http.response.headers.Server)", 'write "server"'],
  ];
  for (const [match, message] of cases) {
    const messages = lint(match);
    assertEquals([messages.length, messages[0]?.includes(message)], [1, true], `${match}: ${messages}`);
  }
  const fine = [
    'http.request.host == "example.com" && http.request.path == "/Admin/x%2Fy"',
    'http.request.method == "PURGE" || http.request.path.startsWith("/a/")',
    'http.request.headers["x-key"].exists(v, v == "A")',
    'http.request.path.matches("(?i)^/ADMIN")',
    'in_domain(http.request.host, "example.com")',
  ];
  for (const match of fine) assertEquals(lint(match), [], match);
});
