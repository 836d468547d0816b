/** Decision records, findings and rewrites. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule, summary } from "../../../lib/policy/mod.ts";
import { eventCommon } from "../../helper/event.ts";
import { decided, HOST, http, rule } from "../../helper/policy.ts";

Deno.test("the record names the rule, its place and the matched values", () => {
  const [written] = parseRules(
    `# comment\n[profiles.rules.no-posts]\nname = "No posts"\naction = "block"\nreason = "posts leave the company"\nmatch = 'http.request.method == "POST" && http.request.host == "example.com"'\n`,
    "rules.toml",
  );
  const { decision } = compilePolicy([written]).evaluate(http({ method: "POST" }));
  assertEquals(decision, {
    event_id: "000000000000",
    decision: "block",
    rule: {
      id: "no-posts",
      name: "No posts",
      layer: "profile",
      file: "rules.toml",
      line: 2,
      reason: "posts leave the company",
    },
    matched_fields: [{ path: "http.request.method", value: "POST" }, {
      path: "http.request.host",
      value: "example.com",
    }],
    rewrites: [],
    evaluated: 1,
    near_misses: [],
    remedy: "change rules.toml:2, or set enabled = false there",
  });
  assertEquals(
    summary(decision),
    'blocked by policy: posts leave the company (profile rule "no-posts"); change rules.toml:2, or set enabled = false there',
  );
});

Deno.test("the line of a decision names its rule where that gives no reason", () => {
  const { decision } = compilePolicy([
    rule("profile", "named", "block", HOST, { name: "no examples", reason: undefined }),
  ])
    .evaluate(http());
  assertEquals(summary(decision).split(";")[0], 'blocked by policy: no examples (profile rule "named")');
});

Deno.test("a near miss names the failed clause and its value", () => {
  const policy = compilePolicy([
    rule(
      "profile",
      "reads",
      "allow",
      `http.request.host == "example.com" && http.request.method in ["GET", "HEAD"] && http.request.port == 443`,
    ),
    rule("profile", "rest", "block", "has(http.request.host)", { priority: 500 }),
  ]);
  const { decision } = policy.evaluate(http({ method: "POST" }));
  assertEquals(decision.near_misses, [{
    rule_id: "reads",
    failed: 'http.request.method in ["GET", "HEAD"]',
    path: "http.request.method",
    value: "POST",
  }]);
  assertEquals(
    decision.remedy,
    `allow it in the profile: action = "allow", priority = 499, match = 'http.request.host == "example.com"'`,
  );
});

Deno.test("the remedy of a record works", () => {
  const blocking = [rule("profile", "b", "block", "has(http.request.host)", { priority: 50 })];
  for (const rules of [[], blocking]) {
    const event = http({ host: "10.0.0.1" });
    const { remedy } = compilePolicy(rules).evaluate(event).decision;
    const [, table] = remedy!.split("profile: ");
    const added = parseRules(
      `[profiles.rules.remedy]\n${table.split(/, (?=priority|match)/).join("\n")}\n`,
      "remedy.toml",
    );
    assertEquals(decided(compilePolicy([...rules, ...added]), event), ["allow", "profile:remedy"]);
  }
});

Deno.test("explain examines rules excluded by the index", () => {
  const policy = compilePolicy([
    rule("profile", "github", "allow", `http.request.host == "github.com" && http.request.method == "GET"`),
    rule("profile", "rest", "block", "has(http.request.host)", { priority: 500 }),
  ]);
  assertEquals(policy.evaluate(http()).decision.near_misses, []);
  assertEquals(
    policy.evaluate(http(), { explain: true }).decision.near_misses.map((
      { rule_id, value },
    ) => [rule_id, value]),
    [["github", "example.com"]],
  );
});

Deno.test("every matching rule with a detection level makes a finding, whatever the decision", () => {
  const policy = compilePolicy([
    rule("corp", "first", "block", HOST, { detection_level: "high" }),
    rule("profile", "later", "allow", HOST, { detection_level: "informational" }),
    rule("profile", "other", "allow", `http.request.host == "x"`, { detection_level: "low" }),
    rule("profile", "silent", "allow", HOST),
  ]);
  const { decision, findings } = policy.evaluate(http());
  assertEquals([decision.decision, decision.rule.id], ["block", "first"]);
  assertEquals(
    findings.map(({ finding_id, rule_id, severity, pack_id }) => [finding_id, rule_id, severity, pack_id]),
    [
      ["finding-000000000000-first", "first", "high", "policy.corp"],
      ["finding-000000000000-later", "later", "info", "policy.profile"],
    ],
  );
});

Deno.test("rewrites before the decision apply in order, on a copy", () => {
  const rewriting = (id: string, rewrite: Rule["rewrite"], priority = 10) =>
    rule("profile", id, "rewrite", HOST, { rewrite, priority });
  const policy = compilePolicy([
    rewriting("b", [{ op: "replace", path: "http.request.path", pattern: "/v1/(.*)", value: "/v2/$1" }], 12),
    rewriting("a", [{ op: "strip_header", path: "X-Secret" }, {
      op: "set",
      path: "http.request.path",
      value: "/v1/x",
    }], 11),
    rewriting("late", [{ op: "set", path: "http.request.method", value: "DELETE" }], 900),
    rule("profile", "go", "allow", HOST, { priority: 20 }),
  ]);
  const event = http({ headers: { "x-secret": ["1"], accept: ["*"] } });
  const { decision, event: rewritten } = policy.evaluate(event);
  assertEquals(decision.decision, "allow");
  assertEquals(decision.rewrites, [
    { rule_id: "a", op: "strip_header", path: "http.request.headers.x-secret" },
    { rule_id: "a", op: "set", path: "http.request.path" },
    { rule_id: "b", op: "replace", path: "http.request.path" },
  ]);
  const { path, url, method, headers } = rewritten.http!.request;
  assertEquals({ path, url, method, headers }, {
    path: "/v2/x",
    url: "https://example.com/v2/x",
    method: "GET",
    headers: { accept: ["*"] },
  });
  assertEquals(event.http!.request.path, "/");
});

Deno.test("a rewrite cannot bypass a corp block", () => {
  const policy = compilePolicy([
    rule("corp", "no-evil", "block", `http.request.url.contains("evil.example")`),
    rule("profile", "redirect", "rewrite", HOST, {
      rewrite: [{ op: "set", path: "http.request.host", value: "evil.example" }],
    }),
    rule("profile", "go", "allow", "has(http.request.host)", { priority: 20 }),
  ]);
  const { decision } = policy.evaluate(http());
  assertEquals([decision.decision, decision.rule.id, decision.rewrites.length], ["block", "no-evil", 1]);
});

Deno.test("a rewritten path of a file has its own class, name and extension", () => {
  const cases = [
    ["/etc/ssl/key.pem", "secret", "key.pem", "pem"],
    ["/tmp/A.TXT", "temp", "A.TXT", "txt"],
    ["/workspace/a/../b.tar.gz", "workspace", "b.tar.gz", "gz"],
    ["/root/.bashrc", "home", ".bashrc", ""],
    ["/tmp/dir/", "temp", "dir", ""],
  ];
  for (const [value, path_class, name, ext] of cases) {
    const policy = compilePolicy([
      rule("profile", "r", "rewrite", "true", {
        rewrite: [{ op: "set", path: "file.activity.path", value }],
      }),
    ]);
    const activity = { operation: "write" as const, path: "/workspace/old.txt", byte_count: 1 };
    const { event } = policy.evaluate({
      schema_version: 1,
      common: eventCommon("file.activity"),
      file: { activity: { ...activity, path_class: "workspace", name: "old.txt", ext: "txt" } },
    });
    assertEquals(event.file!.activity, { ...activity, path: value, path_class, name, ext });
  }
});

const INVALID_REWRITES: [Rule["rewrite"], string][] = [
  [
    [{ op: "set", path: "http.request.port", value: "443" }],
    "http.request.port is a number, the value is a string",
  ],
  [[{ op: "set", path: "http.request.hots", value: "x" }], "unknown field http.request.hots"],
  [
    [{ op: "set", path: "http.request.url", value: "x" }],
    "http.request.url is derived from other fields; rewrite those",
  ],
  [
    [{ op: "set", path: "file.activity.name", value: "x" }],
    "file.activity.name is derived from other fields; rewrite those",
  ],
  [
    [{ op: "set", path: "common.actor", value: "host" }],
    "common.actor describes the event itself and cannot be rewritten",
  ],
  [
    [{ op: "set", path: "file.activity.operation", value: "eat" }],
    "file.activity.operation must be one of read, write, create, delete, rename, import, export",
  ],
  [
    [{ op: "replace", path: "http.request.port", pattern: "4", value: "5" }],
    "http.request.port is a number; replace needs a string field",
  ],
  [
    [{ op: "replace", path: "http.request.path", pattern: "(" }],
    "invalid pattern: error parsing regexp: missing closing ): `(`",
  ],
  [
    [{ op: "set", path: "schema_version", value: 2 }],
    "schema_version describes the event itself and cannot be rewritten",
  ],
  [
    [{ op: "set", path: "credential.substitution.location", value: "path" }],
    "credential.substitution.location describes the event itself and cannot be rewritten",
  ],
  [[{ op: "set", path: "mcp.request.arguments.a..b", value: 1 }], "unknown field mcp.request.arguments.a..b"],
  [[{ op: "set", path: "http.request.path" }], "set http.request.path needs a value"],
  [
    [{ op: "replace", path: "http.request.path", value: "/x" }],
    "replace in http.request.path needs a pattern",
  ],
  [
    [{ op: "replace", path: "http.request.path", pattern: "x", value: 1 }],
    "replace in http.request.path needs a string value",
  ],
  [[{ op: "strip_header", path: "no header" }], `invalid header name "no header"`],
  [[], `a rule with action "rewrite" needs rewrite = [...]`],
];
for (const [rewrite, message] of INVALID_REWRITES) {
  Deno.test(`rewrite rejected: ${message}`, () => {
    const error = assertThrows(
      () => compilePolicy([rule("profile", "r", "rewrite", "true", { rewrite })]),
      SbxError,
    );
    assertEquals(error.message, `profile rule "r": ${message}`);
  });
}

/** Expressions, and the clauses of theirs that fail on a GET of https://example.com/. */
const CLAUSES: [match: string, failed: string][] = [
  [
    '(http.request.port == 1 ? http.request.path == "/x" : http.request.path == "/y") && has(http.request.host)',
    'http.request.port == 1 ? http.request.path == "/x" : http.request.path == "/y"',
  ],
  [
    "!(http.request.port == 443 || (http.request.port == 1 ? true : false)) && has(http.request.host)",
    "!(http.request.port == 443 || (http.request.port == 1 ? true : false))",
  ],
  [
    '// first (\n  http.request.path\n    .contains("(  ") // second )\n&& has(http.request.host)',
    'http.request.path .contains("(  ")',
  ],
  [
    '!(http.request.host == "example.com") && has(http.request.host)',
    '!(http.request.host == "example.com")',
  ],
  [
    '((http.request.host + "😀)\\"").endsWith(r"(\\")")) && has(http.request.host)',
    '(http.request.host + "😀)\\"").endsWith(r"(\\")")',
  ],
  [
    "has(http.request.host) && (http.request.port + 1) * 2 == 5 && has(http.request.path)",
    "(http.request.port + 1) * 2 == 5",
  ],
];
for (const [match, failed] of CLAUSES) {
  Deno.test(`the failed clause of a near miss is as it was written: ${failed}`, () => {
    const policy = compilePolicy([
      rule("profile", "near", "allow", match),
      rule("profile", "rest", "block", "has(http.request.host)", { priority: 500 }),
    ]);
    assertEquals(policy.evaluate(http()).decision.near_misses.map((miss) => miss.failed), [failed]);
  });
}
