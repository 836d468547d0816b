import { assertEquals } from "@std/assert";
import { reviewedFamilies } from "../../../../lib/session/gate/passage.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import { parseRules } from "../../../../lib/policy/author/mod.ts";

const familiesOf = (match: string) => {
  const rules = parseRules(
    `[profiles.rules.a]\nname = "a"\naction = "block"\nmatch = '''${match}'''`,
    "r.toml",
  );
  return [...reviewedFamilies(compilePolicy(rules))].filter((family) => family !== "dns");
};

Deno.test("built-in rules read responses of DNS only, so that no other event is evaluated twice", () => {
  assertEquals([...reviewedFamilies(compilePolicy([]))], ["dns"]);
});

Deno.test("a response is evaluated when a rule reads a field of it, however the rule is written", () => {
  const reads: [match: string, families: string[]][] = [
    ["http.response.status == 500", ["http"]],
    ["http . response\n. status == 500", ["http"]],
    ["!has(http.response.body.text)", ["http"]],
    ["has(http.response)", ["http"]],
    ["has(model.response.stop_reason)", ["model"]],
    ['["x"].exists(x, x in http.response.headers)', ["http"]],
    ['http.request.method == "GET" && (model.response.status == 1 || mcp.response.is_error)', [
      "mcp",
      "model",
    ]],
    ['http.request.path.matches("^/(responses|realtime)$")', []],
    ['http.request.headers["response"][0] == "mcp model"', []],
  ];
  for (const [match, families] of reads) assertEquals(familiesOf(match), families, match);
});
