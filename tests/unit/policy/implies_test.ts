/** Implications that the linter may rely on: where it says so, no event contradicts it. */
import { assert, assertEquals } from "@std/assert";
import { holds, implies, sampleOf, valuesOf, witnessOf } from "../../../lib/policy/author/witness.ts";
import { compileMatch, compileRule } from "../../../lib/policy/engine/compile.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";

const H = "http.request.host";
const P = "http.request.path";

const conditionOf = (match: string) => compileMatch(match).condition;
const programOf = (match: string) =>
  compileRule(
    parseRules(`[profiles.rules.a]\nname = "a"\naction = "block"\nmatch = '${match}'\n`, "rules.toml")[0],
  ).program;

const TRUE: [a: string, b: string][] = [
  [`${H} == "a.example"`, `${H} == "a.example"`],
  [`${H} == "a.example"`, `(${H} == "a.example")`],
  [`${H} == "a.example"`, `${H} in ["b.example", "a.example"]`],
  [`${H} in ["a.example", "b.example"]`, `${H} in ["b.example", "c.example", "a.example"]`],
  [`${H} == "a.example"`, "true"],
  ["false", `${H} == "a.example"`],
  ["false", "false"],
  [`${H} == "a.example" && ${P} == "/x"`, `${H} == "a.example"`],
  [`${H} == "a.example"`, `${H} == "a.example" || ${P} == "/x"`],
  [`${H} == "a.example" && ${P} == "/x"`, `${P} == "/x" && ${H} == "a.example"`],
  [`${H} == "a.example" || ${H} == "b.example"`, `${H}.endsWith(".example")`],
  [`!(${H}.endsWith(".example"))`, `!(${H} == "a.example")`],
  [`${H} == "a.example"`, `has(${H})`],
  [`${P}.startsWith("/admin/")`, `${P}.startsWith("/admin")`],
  [`${P} == "/admin/x"`, `${P}.startsWith("/admin")`],
  [`${P}.endsWith("/x/y")`, `${P}.endsWith("/y")`],
  [`${P} == "/x/y"`, `${P}.endsWith("/y")`],
  [`${P}.startsWith("/admin/")`, `${P}.contains("admin")`],
  [`${P}.contains("/admin/")`, `${P}.contains("admin")`],
  [`in_domain(${H}, "a.example")`, `in_domain(${H}, "example")`],
  [`in_domain(${H}, "a.example")`, `in_domain(${H}, "a.example")`],
  [`${H} == "a.example"`, `in_domain(${H}, "a.example")`],
  [`${H} == "x.a.example"`, `in_domain(${H}, "a.example")`],
  [`${H}.endsWith(".a.example")`, `in_domain(${H}, "a.example")`],
];

const NOT: [a: string, b: string][] = [
  [`${H} == "a.example"`, `${H} == "b.example"`],
  [`${H} == "a.example"`, `${P} == "a.example"`],
  ["true", `${H} == "a.example"`],
  ["true", "false"],
  [`${H} == "a.example"`, "false"],
  [`${H} in ["a.example", "b.example"]`, `${H} == "a.example"`],
  [`${H} == "a.example" || ${H} == "b.test"`, `${H}.endsWith(".example")`],
  [`${H} == "a.example"`, `${H} == "a.example" && ${P} == "/x"`],
  [`!(${H} == "a.example")`, `!(${H}.endsWith(".example"))`],
  [`!(${H} == "a.example")`, `${H} == "a.example"`],
  [`${P}.startsWith("/admin")`, `${P}.startsWith("/admin/")`],
  [`${P}.startsWith("/admin")`, `${P} == "/admin"`],
  [`${P}.endsWith("/y")`, `${P}.startsWith("/y")`],
  [`${P}.contains("/admin")`, `${P}.startsWith("/admin")`],
  [`${P}.contains("/admin")`, `${P}.endsWith("/admin")`],
  [`${P}.contains("/admin")`, `${P} == "/admin"`],
  [`${P}.startsWith("/y")`, `${P}.endsWith("/y")`],
  [`has(${H})`, `${H} == "a.example"`],
  [`has(${P})`, `has(${H})`],
  [`${H}.endsWith("a.example")`, `in_domain(${H}, "a.example")`],
  [`in_domain(${H}, "example")`, `in_domain(${H}, "a.example")`],
  [`${H}.startsWith(".a.example")`, `in_domain(${H}, "a.example")`],
  [`${P} == "a.example"`, `in_domain(${H}, "a.example")`],
  [`${P} == "/admin"`, `${P}.matches("^/admin.$")`],
  [`${P}.contains("/admin")`, `${P}.matches("^/admin$")`],
];

Deno.test("an implication is seen where the form of two conditions shows it", () => {
  for (const [a, b] of TRUE) assert(implies(conditionOf(a), conditionOf(b)), `${a}  ⇒  ${b}`);
});

Deno.test("nothing is implied that an event could contradict", () => {
  for (const [a, b] of NOT) assertEquals(implies(conditionOf(a), conditionOf(b)), false, `${a}  ⇏  ${b}`);
});

Deno.test("conditions nested deeper than the linter looks imply nothing", () => {
  const nested = (depth: number) => {
    let match = `${H} == "a.example"`;
    for (let at = 0; at < depth; at++) match = `(${match} ${at % 2 ? "||" : "&&"} ${P} == "/${at}")`;
    return conditionOf(match);
  };
  assert(implies(nested(3), nested(3)));
  assertEquals(implies(nested(12), nested(12)), false);
});

Deno.test("an example event is one on which the condition is as expected", () => {
  for (
    const match of [
      `${H} == "a.example"`,
      `${H} == "a.example" && ${P}.startsWith("/admin")`,
      `${H} == "a.example" || ${P} == "/x"`,
      `!(${H} == "a.example") && has(${H})`,
      `!has(${H})`,
      `${H} in ["a.example", "b.example"] && http.request.port == 8443`,
      `http.request.port > 1024`,
      `http.request.port < 1024 && ${P}.endsWith("/x")`,
      `${P}.matches("admin")`,
      `${P}.contains("admin") && ${P} != "admin"`,
      `common.actor == "host"`,
      `common.event_type == "dns.query" && dns.request.qname.endsWith(".test")`,
      `has(mcp.request.tool_name)`,
      `size(${P}) > 3`,
    ]
  ) {
    const [condition, program] = [conditionOf(match), programOf(match)];
    for (const expected of [true, false]) {
      const event = witnessOf(condition, program, expected);
      assert(event !== undefined, `no example on which ${match} is ${expected}`);
      assertEquals(holds(program, event!), expected, match);
    }
  }
  assertEquals(witnessOf(conditionOf("false"), programOf("false")), undefined);
});

Deno.test("values and texts of examples match what they are examples of", () => {
  const probe = (op: string, values: unknown[]) => valuesOf({ path: H, op, values } as never);
  assertEquals(probe("equals", ["a", 2]), ["a", 2]);
  assertEquals(probe("prefix", ["/a"]), ["/a", "/ax"]);
  assertEquals(probe("suffix", [".a", "b"]), ["www.a", "x.a", "b", "xb"]);
  assertEquals(probe("contains", ["a"]), ["a", "xax"]);
  assertEquals(probe("equals", Array.from({ length: 20 }, (_, at) => at)).length, 8);
  for (const pattern of ["^www\\.example\\.com$", "(a|b)c", "[a-z]+x", "\\bword\\b", "^v\\w+$"]) {
    const sample = sampleOf(pattern);
    assert(sample !== undefined && new RegExp(pattern).test(sample), `${pattern} ${sample}`);
  }
  assertEquals([sampleOf("^www\\.example\\.com$"), sampleOf("^$")], ["www.example.com", undefined]);
});
