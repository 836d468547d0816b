/** The index of rules: it finds every rule that can match an event, and few others. */
import { assert, assertEquals } from "@std/assert";
import { environment } from "../../../lib/policy/engine/cel.ts";
import { alternativesOf, conditionOf, masksOf, TYPES } from "../../../lib/policy/engine/condition.ts";
import { requiredLiterals } from "../../../lib/policy/engine/regex.ts";
import { compareRules } from "../../../lib/policy/engine/rule.ts";
import { type Action, compilePolicy, type Layer } from "../../../lib/policy/mod.ts";
import { http, rule } from "../../helper/policy.ts";

const H = "http.request.host";
const P = "http.request.path";

/** A rule whose matches are seen as findings. */
const seen = (id: string, match: string) => rule("profile", id, "allow", match, { detection_level: "low" });

/** Tests by their text, with what they mean. */
const TESTS: [match: string, holds: (host: string, path: string) => boolean][] = [
  [`${H} == "a.test"`, (host) => host === "a.test"],
  [`"b.a.test" == ${H}`, (host) => host === "b.a.test"],
  [`${H} in ["a.test", "c.test"]`, (host) => ["a.test", "c.test"].includes(host)],
  [`in_domain(${H}, "a.test")`, (host) => host === "a.test" || host.endsWith(".a.test")],
  [`${H}.endsWith(".test")`, (host) => host.endsWith(".test")],
  [`${H}.endsWith("")`, () => true],
  [`${P}.startsWith("")`, () => true],
  [`${P}.startsWith("/x")`, (_, path) => path.startsWith("/x")],
  [`${P}.startsWith("/x/admin")`, (_, path) => path.startsWith("/x/admin")],
  [`${P}.startsWith("/y")`, (_, path) => path.startsWith("/y")],
  [`${P}.contains("admin")`, (_, path) => path.includes("admin")],
  [`${P}.contains("/x/a")`, (_, path) => path.includes("/x/a")],
  [`${P}.contains("min")`, (_, path) => path.includes("min")],
  [`${P}.matches("^/x.*admin$")`, (_, path) => /^\/x.*admin$/.test(path)],
  [`${P}.matches("admin|root")`, (_, path) => /admin|root/.test(path)],
  [`${P} == "/x" || ${H} == "c.test"`, (host, path) => path === "/x" || host === "c.test"],
  [`${P} == "/x" && ${H} == "c.test"`, (host, path) => path === "/x" && host === "c.test"],
  [`has(${H}) && !(${P} == "/x")`, (_, path) => path !== "/x"],
  [`http.request.port == 443 && ${P} == "/y"`, (_, path) => path === "/y"],
];
const HOSTS = ["a.test", "b.a.test", "c.test", "xa.test", "other.example"];
const PATHS = ["/", "/x", "/x/admin", "/x/y/admin", "/y", "/root", "/y/admi", "/admin", "/x/a", "/min"];

Deno.test("a rule is found for every event on which its condition holds, and no other matches", () => {
  const policy = compilePolicy(TESTS.map(([match], at) => seen(`r${at}`, match)));
  for (const host of HOSTS) {
    // Beyond the longest text that the index cuts into pieces.
    for (const path of [...PATHS, `/${"z".repeat(5000)}/admin`]) {
      const { findings } = policy.evaluate(http({ host, path }));
      const found = findings.map(({ rule_id }) => rule_id).sort();
      const expected = TESTS.flatMap(([, holds], at) => holds(host, path) ? [`r${at}`] : []).sort();
      assertEquals(found, expected, `${host} ${path.slice(0, 40)}`);
    }
  }
});

Deno.test("an event runs those rules whose values it has, however many others there are", () => {
  const kinds: [match: (at: number) => string, host: string, path: string][] = [
    [(at) => `${H} == "h${at}.test"`, "h7.test", "/"],
    [(at) => `in_domain(${H}, "h${at}.test")`, "x.h7.test", "/"],
    [(at) => `${P}.startsWith("/${at}/")`, "a.test", "/7/x"],
    [(at) => `${P}.contains("${1000 + at}")`, "a.test", "/x1007"],
    [(at) => `${P}.contains("same-${1000 + at}")`, "a.test", "/same-1007"],
    [(at) => `${P}.matches("^/x/${1000 + at}/[a-z]+$")`, "a.test", "/x/1007/y"],
    [(at) => `http.request.method == "GET" && ${H} == "h${at}.test"`, "h7.test", "/"],
    [(at) => `${P}.startsWith("/a") && ${H} == "h${at}.test"`, "h7.test", "/a"],
    [(at) => `(${P} == "/${at}" || ${P} == "/x${at}") && has(${H})`, "a.test", "/x7"],
  ];
  for (const [match, host, path] of kinds) {
    const policy = compilePolicy(Array.from({ length: 50 }, (_, at) => seen(`r${at}`, match(at))));
    const { decision } = policy.evaluate(http({ host, path }));
    assertEquals(decision.rule.id, "r7", match(7));
    // The built-in rules on private addresses run too.
    assert(decision.evaluated <= 6, `${match(7)}: ${decision.evaluated} rules`);
  }
});

Deno.test("literals that every match of a pattern contains", () => {
  const cases: [pattern: string, literals: string[]][] = [
    ["", []],
    ["^abc$", ["abc"]],
    ["ab.cd", ["ab", "cd"]],
    ["a\\.b", ["a.b"]],
    ["a\\db", ["a", "b"]],
    ["ab*c", ["a", "c"]],
    ["ab?c", ["a", "c"]],
    ["ab+c", ["ab", "c"]],
    ["ab{2,3}c", ["a", "c"]],
    ["abc{2}", ["ab"]],
    ["a{", []],
    ["x[abc]y", ["x", "y"]],
    ["x[]a]y", ["x", "y"]],
    ["x[^]a]y", ["x", "y"]],
    ["x[\\]a]y", ["x", "y"]],
    ["x[[:alpha:]]y", ["x", "y"]],
    ["x[a", ["x"]],
    ["ab(cd)ef", ["ab", "ef"]],
    ["ab(c(d)e)?fg", ["ab", "fg"]],
    ["ab(c|d)ef", ["ab", "ef"]],
    ["ab|cd", []],
    ["(?i)abc", []],
    ["a(?s:b)cd", ["a", "cd"]],
    ["\\Qabc\\E", []],
    ["\\x41bc", []],
    ["abc\\", ["abc"]],
  ];
  for (const [pattern, literals] of cases) assertEquals(requiredLiterals(pattern), literals, pattern);
});

Deno.test("rules are ordered by layer, priority, restriction and id", () => {
  const of = (layer: Layer, priority: number, action: Action, id: string) =>
    rule(layer, id, action, "true", { priority });
  const ordered = [
    of("corp", -20, "allow", "z"),
    of("corp", -10, "block", "b"),
    of("corp", -10, "ask", "a"),
    of("profile", 10, "block", "c"),
    of("profile", 10, "rewrite", "a"),
    of("profile", 10, "allow", "a"),
    of("profile", 10, "allow", "b"),
    of("profile", 20, "block", "a"),
    of("default", -1000, "block", "a"),
    of("default", 0, "block", "a"),
  ];
  for (const [first, a] of ordered.entries()) {
    for (const [second, b] of ordered.entries()) {
      assertEquals(Math.sign(compareRules(a, b)), Math.sign(first - second), `${first} ${second}`);
    }
  }
  assert(compareRules(of("corp", 10, "block", "a"), of("profile", 10, "block", "a")) < 0);
});

const parsed = (match: string) => conditionOf(environment.parse(match).ast);
const typesIn = (mask: number) => TYPES.filter((_, bit) => mask & 1 << bit);

Deno.test("the event types on which a condition can be true, and false", () => {
  const requests = TYPES.filter((type) => type.startsWith("http."));
  const cases: [match: string, yes: readonly string[], no: readonly string[]][] = [
    ["true", TYPES, []],
    ["false", [], TYPES],
    [`${H} == "x"`, requests, TYPES],
    [`!(${H} == "x")`, TYPES, requests],
    [`common.event_type == "dns.query"`, ["dns.query"], TYPES],
    [`common.actor == "vm"`, TYPES, TYPES],
    [`${H} == "x" && dns.request.qname == "x"`, [], TYPES],
    [`${H} == "x" || dns.request.qname == "x"`, TYPES.filter((type) => /^(http|dns)\./.test(type)), TYPES],
    [`!(${H} == "x" && dns.request.qname == "x")`, TYPES, []],
    [`!(${H} == "x" || common.actor == "vm")`, TYPES, TYPES],
  ];
  assertEquals(masksOf(parsed("true")).yes, 2 ** TYPES.length - 1);
  for (const [match, yes, no] of cases) {
    const masks = masksOf(parsed(match));
    assertEquals([typesIn(masks.yes), typesIn(masks.no)], [yes, no], match);
  }
});

Deno.test("the probes of which a condition needs one", () => {
  const probes = (match: string) =>
    alternativesOf(parsed(match)).map((set) => set.map(({ op, values }) => `${op} ${values}`));
  const cases: [match: string, expected: string[][]][] = [
    [`${H} == "a" && ${P}.startsWith("/b")`, [["equals a"], ["prefix /b"]]],
    [`"a" == ${H}`, [["equals a"]]],
    [`${H} == "a" || ${P}.endsWith("b")`, [["equals a", "suffix b"]]],
    [`${H} == "a" || !(${P} == "b")`, []],
    [`(${P}.contains("abcd") && ${H} == "a") || ${H} == "b"`, [["equals a", "equals b"]]],
    [`(http.request.body.state == "text" && ${P}.endsWith("z")) || ${H} == "b"`, [["suffix z", "equals b"]]],
    [`(${H} in ["a", "b", "c"] && ${P} == "/x") || ${H} == "d"`, [["equals /x", "equals d"]]],
    [`!(${H} == "a")`, []],
    [`${P}.contains("abc")`, []],
    [`${H} == ${P}`, []],
    [`${H} in ["a", ${P}]`, []],
    ["http.request.port == 9007199254740993", []],
    ["http.request.port == 443", [["equals 443"]]],
    [`common.event_type == "dns.query"`, []],
    [
      Array.from({ length: 20 }, (_, at) => `${H} == "${at}"`).join(" && "),
      Array.from(
        { length: 16 },
        (_, at) => [`equals ${at}`],
      ),
    ],
  ];
  for (const [match, expected] of cases) assertEquals(probes(match), expected, match);
});
