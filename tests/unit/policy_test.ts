import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../lib/error/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import {
  type Action,
  compilePolicy,
  type Layer,
  type Policy,
  type Rule,
  summary,
} from "../../lib/policy/mod.ts";
import { completeEvent } from "../../lib/policy/fixture.ts";
import { parseRules } from "../../lib/policy/read.ts";

function rule(layer: Layer, id: string, action: Action, match: string, more: Partial<Rule> = {}): Rule {
  const priority = { corp: -10, profile: 10, default: 0 }[layer];
  return { id, layer, name: id, action, match, enabled: true, priority, ...more };
}

// deno-lint-ignore no-explicit-any
function http(request: Record<string, any> = {}): Event {
  return completeEvent({
    schema_version: 1,
    common: { event_type: "http.request" },
    http: {
      request: {
        method: "GET",
        scheme: "https",
        host: "example.com",
        port: 443,
        path: "/",
        query: "",
        url: "https://example.com/",
        headers: {},
        ...request,
      },
    },
  });
}

function decided(policy: Policy, event: Event): [string, string] {
  const { decision } = policy.evaluate(event);
  return [decision.decision, `${decision.rule.layer}:${decision.rule.id}`];
}

const HOST = `http.request.host == "example.com"`;

/** Two rules that both match, and the one that decides (contracts.md §5). */
const ORDER: [title: string, rules: Rule[], decision: string, decider: string][] = [
  ["without rules the defaults allow", [], "allow", "default:allow-http"],
  ["a profile allow", [rule("profile", "a", "allow", HOST)], "allow", "profile:a"],
  ["a profile block", [rule("profile", "a", "block", HOST)], "block", "profile:a"],
  [
    "a rule that does not match",
    [rule("profile", "a", "block", `http.request.host == "x"`)],
    "allow",
    "default:allow-http",
  ],
  [
    "a rule that is off",
    [rule("profile", "a", "block", HOST, { enabled: false })],
    "allow",
    "default:allow-http",
  ],
  [
    "corp before profile",
    [rule("profile", "a", "allow", HOST), rule("corp", "b", "block", HOST)],
    "block",
    "corp:b",
  ],
  [
    "corp allow before profile block",
    [rule("profile", "a", "block", HOST), rule("corp", "b", "allow", HOST)],
    "allow",
    "corp:b",
  ],
  [
    "lower priority first",
    [
      rule("profile", "a", "block", HOST, { priority: 20 }),
      rule("profile", "b", "allow", HOST, { priority: 15 }),
    ],
    "allow",
    "profile:b",
  ],
  [
    "corp by priority",
    [
      rule("corp", "a", "block", HOST, { priority: -20 }),
      rule("corp", "b", "allow", HOST, { priority: -30 }),
    ],
    "allow",
    "corp:b",
  ],
  [
    "tie: block before ask",
    [rule("profile", "a", "ask", HOST), rule("profile", "b", "block", HOST)],
    "block",
    "profile:b",
  ],
  [
    "tie: block before allow",
    [rule("profile", "a", "allow", HOST), rule("profile", "b", "block", HOST)],
    "block",
    "profile:b",
  ],
  [
    "tie: ask before allow",
    [rule("profile", "a", "allow", HOST), rule("profile", "b", "ask", HOST)],
    "ask",
    "profile:b",
  ],
  [
    "tie of the same action: the id",
    [rule("profile", "b", "block", HOST), rule("profile", "a", "block", HOST)],
    "block",
    "profile:a",
  ],
  [
    "default rules come last whatever their priority",
    [
      rule("default", "d", "block", HOST, { priority: -1000 }),
      rule("profile", "a", "allow", HOST, { priority: 1000 }),
    ],
    "allow",
    "profile:a",
  ],
  [
    "a default rule before the built-in ones by priority",
    [rule("default", "d", "block", HOST, { priority: -1 })],
    "block",
    "default:d",
  ],
  [
    "a default rule replaces the built-in one of its id",
    [rule("default", "allow-http", "ask", "has(http.request)")],
    "ask",
    "default:allow-http",
  ],
  [
    "a replaced default that is off leaves nothing: blocked",
    [rule("default", "allow-http", "allow", "true", { enabled: false })],
    "block",
    "none:none",
  ],
];
for (const [title, rules, decision, decider] of ORDER) {
  Deno.test(`order: ${title}`, () => {
    for (const order of [rules, rules.toReversed()]) {
      assertEquals(decided(compilePolicy(order), http()), [decision, decider]);
    }
  });
}

Deno.test("defaults allow every type of the six families", () => {
  const policy = compilePolicy([]);
  for (
    const type of [
      "http.request",
      "dns.query",
      "mcp.tool_call",
      "mcp.tool_list",
      "mcp.event",
      "model.call",
      "file.activity",
      "process.exec",
      "process.exit",
    ] as const
  ) {
    assertEquals(
      policy.evaluate(completeEvent({ schema_version: 1, common: { event_type: type } })).decision.decision,
      "allow",
      type,
    );
  }
});

const PRIVATE = [
  "10.0.0.1",
  "172.16.0.1",
  "192.168.1.1",
  "127.0.0.1",
  "127.1",
  "0",
  "0.0.0.0",
  "2130706433",
  "0x7f000001",
  "0x7f.1",
  "0177.0.0.1",
  "017700000001",
  "127.0.0.1.",
  "169.254.169.254",
  "0xa9fea9fe",
  "2852039166",
  "0251.0376.0251.0376",
  "100.100.100.200",
  "192.0.0.192",
  "localhost",
  "LOCALHOST.",
  "a.localhost",
  "metadata.google.internal",
  "::1",
  "[::1]",
  "::",
  "0:0:0:0:0:0:0:1",
  "::ffff:127.0.0.1",
  "[::ffff:7f00:1]",
  "::ffff:0:10.0.0.1",
  "::127.0.0.1",
  "64:ff9b::10.0.0.1",
  "2002:7f00:1::",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1%eth0",
  "fe80::1",
  "１２７.０.０.１",
  "127。0。0。1",
  "①②⑦.⓪.⓪.①",
  "255.255.255.255",
  "224.0.0.1",
];
const PUBLIC = [
  "8.8.8.8",
  "1.1.1.1",
  "11.0.0.1",
  "172.32.0.1",
  "172.15.0.1",
  "192.169.0.1",
  "100.128.0.1",
  "169.253.0.1",
  "134744072",
  "0x08080808",
  "2606:4700::1111",
  "::ffff:8.8.8.8",
  "64:ff9b::8.8.8.8",
  "2002:808:808::",
  "example.com",
  "10.example.com",
  "10.0.0.1.example.com",
  "localhost.example.com",
  "mylocalhost",
  "256.1.1.1",
  "1.2.3.4.5",
  "0x7g.1",
  "fe80.example",
  "cafe.babe",
];
for (const host of PRIVATE) {
  Deno.test(`defaults block http to ${host}, and a DNS answer of it`, () => {
    const policy = compilePolicy([]);
    assertEquals(decided(policy, http({ host })), ["block", "default:block-private-http"]);
    const dns = completeEvent({
      schema_version: 1,
      common: { event_type: "dns.query" },
      dns: {
        request: { qname: "x.example", qtype: "A", transport: "udp" },
        response: { rcode: "NOERROR", answers: ["8.8.8.8", host] },
      },
    });
    assertEquals(decided(policy, dns), ["block", "default:block-private-dns"]);
  });
}
Deno.test("defaults allow public addresses and names", () => {
  for (const host of PUBLIC) {
    assertEquals(decided(compilePolicy([]), http({ host })), ["allow", "default:allow-http"], host);
  }
});

Deno.test("the record says which rule, where, and on what", () => {
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

Deno.test("a near miss names the clause that failed and the value that it failed on", () => {
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

Deno.test("explain looks among rules that the index ruled out", () => {
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

Deno.test("every matching rule with a detection level makes a finding, whatever was decided", () => {
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

Deno.test("a rewrite cannot lead to where a corp rule blocks", () => {
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

const BAD_REWRITES: [Rule["rewrite"], string][] = [
  [
    [{ op: "set", path: "http.request.port", value: "443" }],
    "http.request.port is a number, the value is a string",
  ],
  [[{ op: "set", path: "http.request.hots", value: "x" }], "there is no field http.request.hots to rewrite"],
  [
    [{ op: "set", path: "http.request.url", value: "x" }],
    "http.request.url follows from other fields; rewrite those",
  ],
  [
    [{ op: "set", path: "common.actor", value: "host" }],
    "common.actor says what happened; it cannot be rewritten",
  ],
  [
    [{ op: "set", path: "file.activity.operation", value: "eat" }],
    "file.activity.operation is one of read, write, create, delete, rename, import, export",
  ],
  [
    [{ op: "replace", path: "http.request.port", pattern: "4", value: "5" }],
    "http.request.port is a number; replace changes text",
  ],
  [
    [{ op: "replace", path: "http.request.path", pattern: "(" }],
    "bad pattern: error parsing regexp: missing closing ): `(`",
  ],
  [[{ op: "strip_header", path: "no header" }], `"no header" is no header`],
  [[], `a rule with action "rewrite" needs rewrite = [...]`],
];
for (const [rewrite, message] of BAD_REWRITES) {
  Deno.test(`rewrite refused: ${message}`, () => {
    const error = assertThrows(
      () => compilePolicy([rule("profile", "r", "rewrite", "true", { rewrite })]),
      SbxError,
    );
    assertEquals(error.message, `profile rule "r": ${message}`);
  });
}

const FAILING = [
  "1 / (http.request.port - 443) > 0",
  `[1, 2].all(a, ${"[1,2,3,4,5,6,7,8,9,10].all(x, ".repeat(6)}true${")".repeat(6)})`,
];
for (const match of FAILING) {
  for (const action of ["allow", "ask", "block", "rewrite"] as const) {
    Deno.test(`a failing ${action} rule blocks its event and is reported: ${match.slice(0, 30)}`, () => {
      const rewrite: Rule["rewrite"] = action === "rewrite" ? [{ op: "strip_header", path: "x" }] : undefined;
      const policy = compilePolicy([
        rule("profile", "bad", action, `${HOST} && ${match}`, { file: "f.toml", line: 3, rewrite }),
      ]);
      const { decision, failures } = policy.evaluate(http());
      assertEquals([decision.decision, decision.rule.id], ["block", "bad"]);
      assertEquals(failures.length, 1);
      assert(failures[0].message.startsWith('f.toml:3: profile rule "bad" failed: '), failures[0].message);
      assertEquals(decision.rule.reason, failures[0].message);
      assertEquals(decided(policy, http({ host: "other.example" }))[0], "allow");
    });
  }
}

Deno.test("a rule that fails after the decision is reported and changes nothing", () => {
  const policy = compilePolicy([
    rule("corp", "go", "allow", HOST),
    rule("profile", "bad", "block", "1 / (http.request.port - 443) > 0", { detection_level: "low" }),
  ]);
  const { decision, failures, findings } = policy.evaluate(http());
  assertEquals([decision.decision, failures.map(({ rule_id }) => rule_id), findings], ["allow", ["bad"], []]);
});

Deno.test("a catastrophic pattern takes no time", () => {
  const policy = compilePolicy([rule("profile", "r", "block", `http.request.path.matches("^(a+)+$")`)]);
  assertEquals(decided(policy, http({ path: "a".repeat(100_000) + "!" }))[0], "allow");
  assertThrows(
    () => compilePolicy([rule("profile", "r", "block", `http.request.path.matches("(a{1000}){1000}")`)]),
    SbxError,
  );
});

Deno.test("rules with the same id in one layer are refused, in two they are not", () => {
  const twice = [
    rule("corp", "a", "allow", HOST, { file: "a.toml", line: 1 }),
    rule("corp", "a", "block", HOST, { file: "b.toml", line: 9 }),
  ];
  assertEquals(
    assertThrows(() => compilePolicy(twice), SbxError).message,
    'b.toml:9: corp rule "a" is defined twice: first at a.toml:1',
  );
  assertEquals(
    decided(compilePolicy([rule("corp", "a", "allow", HOST), rule("profile", "a", "block", HOST)]), http()),
    ["allow", "corp:a"],
  );
});

Deno.test("every broken rule is named, up to ten", () => {
  const broken = Array.from({ length: 12 }, (_, at) => rule("profile", `r${at}`, "allow", "nope == 1"));
  const { message, code } = assertThrows(() => compilePolicy(broken), SbxError);
  assertEquals([code, message.split("\n").length, message.split("\n").at(-1)], [
    "policy.invalid",
    11,
    "… and 2 more",
  ]);
});

Deno.test("a hundred thousand rules compile, and decide", () => {
  const rules = Array.from(
    { length: 100_000 - 1 },
    (_, at) => rule("profile", `r${at}`, "block", `http.request.host == "h${at}.example"`),
  );
  const policy = compilePolicy(rules);
  assertEquals(decided(policy, http({ host: "h99998.example" })), ["block", "profile:r99998"]);
  assertEquals(policy.evaluate(http()).decision.evaluated, 2);
  assertThrows(() => compilePolicy([...rules, ...rules]), SbxError, "at most");
});
