/** The linter's words for a rule that is too broad or holds on no event, with an event that shows it. */
import { assertEquals } from "@std/assert";
import { completeEvent, lintPolicy, parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

const H = "http.request.host";
const U = "http.request.url";

/** Lints one rule. @returns code, message and whether its event is decided by the rule */
function lint(match: string): string[] {
  const text = `[profiles.rules.a]\nname = "a"\naction = "allow"\nmatch = '${match}'\n`;
  const policy = compilePolicy(parseRules(text, "r.toml"));
  return lintPolicy(policy).map(({ code, message, witness }) => {
    if (witness) assertEquals(policy.evaluate(completeEvent(witness)).decision.rule.id, "a", message);
    return `${code}: ${message}`;
  });
}

Deno.test("a test of a name or URL that others fit too is broad, and the event shows one that fits", () => {
  const cases: [string, string[]][] = [
    [`${H}.contains("github")`, [
      `broad: contains("github") matches anywhere in the name; use in_domain(): it matches ${H} "github.attacker.example"`,
    ]],
    [`${H}.endsWith("github.com")`, [
      `broad: endsWith("github.com") also matches other names with this ending; use in_domain() or ".github.com": it matches ${H} "evilgithub.com"`,
    ]],
    [`${H}.endsWith(".github.com")`, []],
    [`${H}.startsWith("github")`, [
      `broad: startsWith("github") also matches other names with this beginning: it matches ${H} "github.attacker.example"`,
    ]],
    [`${H}.matches("^github\\\\.com")`, [
      `broad: the pattern has no $ at its end: it matches ${H} "github.com.attacker.example"`,
    ]],
    [`${H}.matches("github\\\\.com$")`, [
      `broad: the pattern has no ^ at its beginning: it matches ${H} "evilgithub.com"`,
    ]],
    [`${H}.matches("^github.com$")`, [
      `broad: "." in the pattern matches any character; write "\\.": it matches ${H} "githubxcom"`,
    ]],
    [`${H}.matches("^github\\\\.com$")`, []],
    [`${U}.startsWith("https://github.com")`, [
      `broad: startsWith("https://github.com") does not end at the host; add a "/": it matches ${U} "https://github.com.attacker.example/"`,
    ]],
    [`${U}.startsWith("https://github.com/")`, []],
    [`${U}.contains("github.com")`, [
      `broad: contains("github.com") also matches in the path and the query; test ${H}: it matches ${U} "https://attacker.example/?github.com"`,
    ]],
    [`http.request.path.contains("admin")`, []],
    [`!(${H}.contains("github")) && has(${H})`, []],
    [`${H}.contains("github") && in_domain(${H}, "github.com")`, []],
    [`${H}.startsWith("api") || dns.request.qname == "a.test"`, [
      `broad: startsWith("api") also matches other names with this beginning: it matches ${H} "api.attacker.example"`,
    ]],
  ];
  const all = cases.map(([match]) => [match, lint(match)]);
  assertEquals(all, cases);
});

Deno.test("a condition that no event meets says why", () => {
  assertEquals(lint('file.activity.operation == "reed"'), [
    'never-true: it can match no event: file.activity.operation is never "reed"; did you mean "read"?',
  ]);
  assertEquals(lint('file.activity.operation in ["read", "x"]'), []);
  assertEquals(lint(`${H} == "a.test" && ${H} == "b.test"`), [
    `never-true: it can match no event: ${H} cannot have two values`,
  ]);
  assertEquals(lint(`${H} in ["a.test", "b.test"] && ${H} in ["b.test", "c.test"]`), []);
  assertEquals(lint(`${H} == "a.test" && dns.request.qname == "b.test"`), [
    "never-true: it can match no event: it requires fields of two families",
  ]);
});
