/** Restrictions hold for the path as a lenient server reads it, allowances for the path that is sent. */
import { assertEquals } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";

function evaluate(rules: string, path: string) {
  const event = {
    schema_version: 1 as const,
    common: eventCommon("http.request"),
    http: { request: httpRequest({ path }) },
  };
  const { decision, findings, event: rewritten } = compilePolicy(parseRules(rules, "r.toml")).evaluate(event);
  return {
    decision: decision.decision,
    rule: decision.rule.id,
    findings: findings.map(({ rule_id }) => rule_id),
    path: rewritten.http!.request.path,
    matched: decision.matched_fields,
  };
}

const rule = (id: string, action: string, match: string, more = "") =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '${match}'\n${more}\n`;
const ADMIN = 'http.request.path == "/x/admin"';

Deno.test("a block decides on a spelling of its path, and its record shows the reading", () => {
  const { decision, rule: id, path, matched } = evaluate(rule("no-admin", "block", ADMIN), "/x%2Fadmin");
  assertEquals([decision, id, path], ["block", "no-admin", "/x%2Fadmin"]);
  assertEquals(matched, [{ path: "http.request.path", value: "/x/admin" }]);
});

Deno.test("a rule before the block still decides on the path that is sent", () => {
  const rules = rule("first", "allow", 'http.request.path.startsWith("/x%2F")', "priority = 10") +
    rule("no-admin", "block", ADMIN, "priority = 20");
  assertEquals(evaluate(rules, "/x%2Fadmin").decision, "allow");
});

Deno.test("an ask holds for a spelling, and a block of the path that is sent is stricter", () => {
  const rules = rule("ask", "ask", ADMIN);
  assertEquals(evaluate(rules, "/x/;/admin").decision, "ask");
  const both = rules + rule("block", "block", 'http.request.path.contains(";")', "priority = 20");
  assertEquals(evaluate(both, "/x/;/admin").decision, "block");
});

Deno.test("an allow and a rewrite need the path that is sent", () => {
  const rules = rule("one", "allow", ADMIN) + rule("rest", "block", "has(http.request)", "priority = 20");
  assertEquals(evaluate(rules, "/x%2Fadmin").rule, "rest");
  const rewrite = rule(
    "r",
    "rewrite",
    ADMIN,
    'rewrite = [{ op = "set", path = "http.request.path", value = "/y" }]',
  );
  assertEquals(evaluate(rewrite, "/x%2Fadmin").path, "/x%2Fadmin");
  assertEquals(evaluate(rewrite, "/x/admin").path, "/y");
});

Deno.test("a rewritten path passes the rules in every reading", () => {
  const rules = rule(
    "r",
    "rewrite",
    'http.request.path == "/a"',
    'rewrite = [{ op = "set", path = "http.request.path", value = "/x%2Fadmin" }]',
  ) +
    rule("no-admin", "block", ADMIN, "priority = 20");
  assertEquals(evaluate(rules, "/a").decision, "block");
});

Deno.test("a finding is made once, for any reading", () => {
  const found = (id: string, match: string) =>
    rule(id, "allow", match, 'detection_level = "low"\npriority = 20');
  const rules = found("seen", ADMIN) + found("always", "has(http.request)");
  assertEquals(evaluate(rules, "/x%2Fadmin").findings.toSorted(), ["always", "seen"]);
});

Deno.test("letters keep their case unless a rule ignores it", () => {
  assertEquals(evaluate(rule("no-admin", "block", ADMIN), "/X/ADMIN").decision, "allow");
  const any = rule("no-admin", "block", 'http.request.path.matches("(?i)^/x/admin")');
  assertEquals(evaluate(any, "/X/ADMIN").decision, "block");
});
