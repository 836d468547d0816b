/** Rules that are written and not saved. */
import { assertEquals, assertMatch } from "@std/assert";
import { draftProblem, parseRules, type RuleTable, withDraft } from "../../../lib/policy/author/mod.ts";

const draft = (rule: Partial<RuleTable>, rule_id = "new") => ({
  rule_id,
  rule: { action: "block", match: 'http.request.host == "a.example"', enabled: true, ...rule } as RuleTable,
});

Deno.test("a draft that can be saved has no problem", () => {
  assertEquals(draftProblem(draft({})), undefined);
});

Deno.test("an unknown field is told with its place in the expression", () => {
  const match = 'dns.request.qname == "a" && http.request.hots == "b"';
  const problem = draftProblem(draft({ match }))!;
  assertEquals([problem.code, problem.severity, problem.at], ["invalid", "error", match.indexOf("http.")]);
  assertMatch(problem.message, /^unknown field http\.request\.hots; did you mean "http\.request\.host"\?$/);
});

Deno.test("mistakes outside the expression have no place in it", () => {
  for (
    const [rule, message] of [
      [{ priority: 3 }, /priority of a profile rule/],
      [{ ask_timeout: 3 }, /must not have ask_timeout/],
      [{ action: "rewrite" }, /needs rewrite/],
    ] as [Partial<RuleTable>, RegExp][]
  ) {
    const { at, message: said } = draftProblem(draft(rule))!;
    assertEquals(at, undefined);
    assertMatch(said, message);
  }
});

Deno.test("a draft takes the place of the profile's rule of its id, and of no other layer's", () => {
  const text = '[corp.rules.a]\naction = "block"\nmatch = "true"\n' +
    '[profiles.rules.a]\naction = "ask"\nmatch = "true"\n';
  const rules = withDraft(parseRules(text, "f.toml"), draft({ action: "allow" }, "a"));
  assertEquals(rules.map(({ layer, action, line }) => [layer, action, line]), [
    ["corp", "block", 1],
    ["profile", "allow", 4],
  ]);
});
