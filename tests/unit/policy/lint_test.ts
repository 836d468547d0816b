import { assert, assertEquals } from "@std/assert";
import { completeEvent, lintPolicy } from "../../../lib/policy/author/mod.ts";
import { type Action, compilePolicy, type Layer, type Rule } from "../../../lib/policy/mod.ts";

function rule(layer: Layer, id: string, action: Action, match: string, more: Partial<Rule> = {}): Rule {
  return {
    id,
    layer,
    name: id,
    action,
    match,
    enabled: true,
    priority: layer === "corp" ? -10 : 10,
    ...(action === "rewrite" && { rewrite: [{ op: "strip_header", path: "x" }] }),
    ...more,
  };
}

const lints = (...rules: Rule[]) =>
  lintPolicy(compilePolicy(rules)).map(({ code, rule_id }) => `${rule_id} ${code}`);
const H = "http.request.host";
const HOST = `${H} == "a.example"`;
const late = { priority: 20 };
const setting = (path: string): Partial<Rule> => ({ rewrite: [{ op: "set", path, value: "/b" }] });

/** Rules and the expected lint findings. */
const CASES: [title: string, rules: Rule[], expected: string[]][] = [
  ["good rules", [
    rule("profile", "a", "allow", HOST),
    rule("profile", "b", "block", `in_domain(http.request.host, "b.example")`, late),
  ], []],
  ["rewrites of what the guest starts or does", [
    rule("profile", "a", "rewrite", 'process.activity.executable == "git"', setting("process.activity.cwd")),
    rule(
      "profile",
      "b",
      "rewrite",
      'common.actor == "host" && process.activity.executable == "git"',
      setting("process.activity.cwd"),
    ),
    rule("profile", "c", "rewrite", 'file.activity.path == "/a"', setting("file.activity.path")),
  ], ["a guest-rewrite", "c guest-rewrite"]],
  ["rules on what nobody waits for", [
    rule("profile", "a", "block", 'file.activity.operation == "delete"'),
    rule("profile", "b", "ask", 'file.activity.operation in ["create", "rename"]', late),
    rule(
      "profile",
      "c",
      "block",
      'file.activity.operation in ["write", "delete"] && file.activity.ext == "a"',
    ),
    rule("profile", "d", "block", 'file.activity.operation == "import"'),
    rule("profile", "e", "allow", 'file.activity.operation == "rename"'),
  ], ["a guest-file", "b guest-file"]],
  ["the same twice", [rule("profile", "a", "allow", HOST), rule("profile", "b", "allow", HOST, late)], [
    "b redundant",
  ]],
  ["a narrower rule after a broader one", [
    rule("profile", "a", "ask", `http.request.host.endsWith(".example")`),
    rule("profile", "b", "block", HOST, late),
  ], ["b unreachable"]],
  ["a block after an allow", [
    rule("corp", "a", "allow", `has(http.request.host)`),
    rule("profile", "b", "block", HOST),
  ], ["b hidden-block"]],
  ["a block after an allow with more clauses", [
    rule("profile", "a", "allow", `${HOST} && http.request.port == 443`),
    rule("profile", "b", "block", HOST, late),
  ], []],
  ["a value from a list", [
    rule("profile", "a", "allow", `http.request.method in ["GET", "HEAD"]`),
    rule("profile", "b", "block", `http.request.method == "HEAD" && ${HOST}`, late),
  ], ["b hidden-block"]],
  ["one of two alternatives", [
    rule("profile", "a", "block", `${HOST} || http.request.port == 22`),
    rule("profile", "b", "allow", HOST, late),
  ], ["b unreachable"]],
  ["negations reverse the implication", [
    rule("profile", "a", "block", `has(http.request.host) && !(http.request.method == "GET")`),
    rule(
      "profile",
      "b",
      "allow",
      `has(http.request.host) && !(http.request.method in ["GET", "HEAD"])`,
      late,
    ),
  ], ["b unreachable"]],
  [
    "a host in a domain",
    [
      rule("profile", "a", "block", `in_domain(http.request.host, "example")`),
      rule("profile", "b", "allow", HOST, late),
    ],
    ["b unreachable"],
  ],
  [
    "a suffix that does not end at a dot",
    [
      rule("profile", "a", "block", `in_domain(http.request.host, "example")`),
      rule("profile", "b", "ask", `http.request.host.endsWith("example")`, late),
    ],
    ["b broad"],
  ],
  ["a rewrite hides nothing", [
    rule("profile", "a", "rewrite", HOST),
    rule("profile", "b", "block", HOST, late),
  ], []],
  ["a disabled rule hides nothing", [
    rule("profile", "a", "allow", HOST, { enabled: false }),
    rule("profile", "b", "block", HOST, late),
  ], []],
  ["same priority, both match", [
    rule("profile", "a", "allow", `http.request.method == "GET"`),
    rule("profile", "b", "block", HOST),
  ], ["a contradiction"]],
  ["an ask and a block at the same priority", [
    rule("profile", "a", "ask", `http.request.method == "POST"`),
    rule("profile", "b", "block", HOST),
  ], []],
  ["an ask and an allow at the same priority", [
    rule("profile", "a", "ask", `http.request.method == "POST"`),
    rule("profile", "b", "allow", HOST),
  ], ["b contradiction"]],
  ["same priority, both match, but not the first example of either", [
    rule("profile", "a", "allow", `${HOST} || http.request.path == "/x"`),
    rule("profile", "b", "block", `http.request.path == "/x" && http.request.method == "PUT"`),
  ], ["a contradiction"]],
  ["same priority in two layers", [
    rule("corp", "a", "allow", `http.request.method == "GET"`, late),
    rule("profile", "b", "block", HOST, late),
  ], []],
  ["same priority, never both", [
    rule("profile", "a", "allow", `http.request.host == "b.example"`),
    rule("profile", "b", "block", HOST),
  ], []],
  ["always true", [rule("profile", "a", "allow", "true", late)], ["a always-true"]],
  ["always true by two complementary parts", [
    rule("profile", "a", "ask", `has(http.request.host) || !has(http.request.host)`),
  ], ["a always-true"]],
  ["a negation that matches other families", [rule("profile", "a", "block", `!(${HOST})`)], [
    "a other-families",
  ]],
  ["a negation limited to its family", [
    rule("profile", "a", "block", `has(http.request) && !(${HOST})`),
  ], []],
  ["a value that no event has", [rule("profile", "a", "block", `file.activity.operation == "wirte"`)], [
    "a never-true",
  ]],
  ["two families at once", [rule("profile", "a", "block", `${HOST} && dns.request.qname == "x"`)], [
    "a never-true",
  ]],
  ["two values at once", [rule("profile", "a", "block", `${HOST} && http.request.host == "b.example"`)], [
    "a never-true",
  ]],
  ["a pattern without anchors", [
    rule("profile", "a", "allow", `http.request.host.matches("github\\\\.com")`),
  ], ["a broad"]],
  ["a pattern without an end anchor", [
    rule("profile", "a", "allow", `http.request.host.matches("^api\\\\.github\\\\.com")`),
  ], ["a broad"]],
  ["a pattern with an unescaped dot", [
    rule("profile", "a", "allow", `http.request.host.matches("^api.github.com$")`),
  ], ["a broad"]],
  ["a correct pattern", [
    rule("profile", "a", "allow", `http.request.host.matches("^[a-z]+\\\\.github\\\\.com$")`),
  ], []],
  ["a suffix without dot", [rule("profile", "a", "allow", `http.request.host.endsWith("github.com")`)], [
    "a broad",
  ]],
  ["a suffix with dot", [rule("profile", "a", "allow", `http.request.host.endsWith(".github.com")`)], []],
  ["a piece of a host", [rule("profile", "a", "allow", `http.request.host.contains("github")`)], ["a broad"]],
  ["a URL without its slash", [
    rule("profile", "a", "allow", `http.request.url.startsWith("https://github.com")`),
  ], ["a broad"]],
  ["a broad test that another clause narrows", [
    rule(
      "profile",
      "a",
      "allow",
      `http.request.host.endsWith("github.com") && ${HOST.replace("a.example", "api.github.com")}`,
    ),
  ], []],
];
for (const [title, rules, expected] of CASES) {
  Deno.test(`lint: ${title}`, () => assertEquals(lints(...rules), expected));
}

Deno.test("lint: every example event shows its finding", () => {
  for (const [title, rules] of CASES) {
    const policy = compilePolicy(rules);
    for (const { code, rule_id, other_rule_id, witness, message } of lintPolicy(policy)) {
      if (code === "never-true") continue;
      if (!witness) throw new Error(`${title}: ${message}: no witness`);
      const { decision } = policy.evaluate(completeEvent(witness));
      // The rule itself decides or rewrites, or the other rule decides in its place.
      assert(
        [rule_id, other_rule_id].includes(decision.rule.id) ||
          decision.rewrites.some((rewrite) => rewrite.rule_id === rule_id),
        `${title}: ${message}: ${decision.rule.id}`,
      );
    }
  }
});

Deno.test("lint: a finding says what is wrong and what to do", () => {
  const cases: [match: string, message: string][] = [
    [
      `!(dns.request.qname == "x")`,
      "it also matches http.request events, which have no dns fields: add has(dns.request)",
    ],
    [
      `!(file.activity.path == "x")`,
      "it also matches http.request events, which have no file fields: add has(file.activity)",
    ],
    [
      `!(${HOST} || process.activity.cwd == "x")`,
      "it also matches dns.query events, which have no http or process fields: add has(http.request)",
    ],
    [`${HOST} && dns.request.qname == "x"`, "it can match no event: it requires fields of two families"],
    [
      `${HOST} && http.request.host in ["b.example", "c.example"]`,
      "it can match no event: http.request.host cannot have two values",
    ],
    [
      `common.actor == "somebody-else"`,
      'it can match no event: common.actor is never "somebody-else"; expected one of vm, host',
    ],
    ["true", "its condition is always true: it decides every event not decided by an earlier rule"],
  ];
  for (const [match, expected] of cases) {
    const [{ message }] = lintPolicy(compilePolicy([rule("profile", "a", "block", match, late)]));
    assertEquals(message, expected, match);
  }
  const pairs: [first: Rule, match: string, message: string][] = [
    [
      rule("profile", "a", "block", `has(${H})`),
      HOST,
      'profile rule "a" already decides block for every event it matches',
    ],
    [
      rule("profile", "a", "ask", `has(${H})`),
      HOST,
      'it never decides: profile rule "a" (ask) comes first and matches every event it matches',
    ],
    [
      rule("profile", "a", "allow", `http.request.method == "GET"`, late),
      HOST,
      'it contradicts profile rule "b" at the same priority 20: block wins over allow',
    ],
  ];
  for (const [first, match, expected] of pairs) {
    const [{ message }] = lintPolicy(compilePolicy([first, rule("profile", "b", "block", match, late)]));
    assertEquals(message, expected);
  }
});

Deno.test("lint: a finding names both rules and their files", () => {
  const [finding] = lintPolicy(compilePolicy([
    rule("profile", "a", "allow", "has(http.request.host)", { file: "a.toml", line: 3 }),
    rule("profile", "b", "block", HOST, { ...late, file: "b.toml", line: 9 }),
  ]));
  assertEquals(finding, {
    code: "hidden-block",
    severity: "error",
    rule_id: "b",
    layer: "profile",
    file: "b.toml",
    line: 9,
    other_rule_id: "a",
    message: `it never blocks: profile rule "a" (a.toml:3) comes first and allows every event it matches`,
    witness: {
      schema_version: 1,
      common: { event_type: "http.request" },
      http: { request: { host: "a.example" } },
    },
  });
  const [wrong] = lintPolicy(
    compilePolicy([rule("profile", "a", "block", `file.activity.operation == "wirte"`)]),
  );
  assertEquals(
    wrong.message,
    `it can match no event: file.activity.operation is never "wirte"; did you mean "write"?`,
  );
});
