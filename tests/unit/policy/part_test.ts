/**
 * The parts of events that rules read: guards refuse what would hide them (docs/design/contracts/05-policy.md
 * §5).
 */
import { assertEquals } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

const BODY = "http.request.body";

Deno.test("a policy knows which parts of events its rules read", async (t) => {
  const cases: [match: string, part: string, reads: boolean][] = [
    ['model.request.model == "x"', "model", true],
    ['!(model.request.model in ["x"])', "model", true],
    ["has(model.request)", "model", true],
    ['common.event_type == "model.call"', "model", true],
    ['common.event_type in ["http.request", "model.call"]', "model", true],
    ['model.response.tool_calls.exists(call, call.name == "x")', "model", true],
    ['common.actor == "vm"', "model", false],
    ['http.request.path == "/model.request.model"', "model", false],
    ['http.request.body.text.contains("x")', BODY, true],
    ['http . request.\n body . text != "x"', BODY, true],
    ['http.request.host == "a" && !(http.request.body.truncated)', BODY, true],
    ["has(http.request.body)", BODY, true],
    ['has(http.request) && !(http.request.host == "body")', BODY, false],
    ['http.response.body.text.contains("x")', BODY, false],
    ['http.response.body.text.contains("x")', "http.response.body", true],
  ];
  for (const [match, part, reads] of cases) {
    await t.step(`${match}: ${part}`, () => {
      const text = `[profiles.rules.r]\naction = "block"\nmatch = '''${match}'''`;
      assertEquals(compilePolicy(parseRules(text, "r.toml")).reads(part), reads);
    });
  }
  await t.step("built-in rules read nothing, their replacements do", () => {
    assertEquals(compilePolicy([]).reads("model"), false);
    const replaced = `[default.allow-model]\naction = "block"\nmatch = 'common.event_type == "model.call"'`;
    assertEquals(compilePolicy(parseRules(replaced, "r.toml")).reads("model"), true);
  });
  await t.step("a rewrite reads what it changes, a disabled rule nothing", () => {
    const rewrite = `[profiles.rules.r]
action = "rewrite"
match = 'http.request.host == "a"'
rewrite = [{ op = "replace", path = "http.request.body.text", pattern = "x", value = "y" }]`;
    assertEquals(compilePolicy(parseRules(rewrite, "r.toml")).reads(BODY), true);
    assertEquals(compilePolicy(parseRules(`${rewrite}\nenabled = false`, "r.toml")).reads(BODY), false);
  });
});
