/** Rules that fail, and rules that are too many, too large or too slow. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules, readRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { decided, HOST, http, rule } from "../../helper/policy.ts";

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
      const [, problem] = failures[0].message.split(" failed: ");
      assertEquals(decision.rule.reason, `the rule failed on this event: ${problem}`);
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

Deno.test("a catastrophic pattern runs in linear time", () => {
  const policy = compilePolicy([rule("profile", "r", "block", `http.request.path.matches("^(a+)+$")`)]);
  assertEquals(decided(policy, http({ path: "a".repeat(100_000) + "!" }))[0], "allow");
  assertThrows(
    () => compilePolicy([rule("profile", "r", "block", `http.request.path.matches("(a{1000}){1000}")`)]),
    SbxError,
  );
});

Deno.test("duplicate ids are rejected in one layer, allowed across layers", () => {
  const twice = [
    rule("corp", "a", "allow", HOST, { file: "a.toml", line: 1 }),
    rule("corp", "a", "block", HOST, { file: "b.toml", line: 9 }),
  ];
  assertEquals(
    assertThrows(() => compilePolicy(twice), SbxError).message,
    'b.toml:9: corp rule "a" is defined twice, first at a.toml:1',
  );
  assertEquals(
    decided(compilePolicy([rule("corp", "a", "allow", HOST), rule("profile", "a", "block", HOST)]), http()),
    ["allow", "corp:a"],
  );
});

Deno.test("an error lists up to ten broken rules", () => {
  const broken = Array.from({ length: 12 }, (_, at) => rule("profile", `r${at}`, "allow", "nope == 1"));
  const { message, code } = assertThrows(() => compilePolicy(broken), SbxError);
  assertEquals([code, message.split("\n").length, message.split("\n").at(-1)], [
    "policy.invalid",
    11,
    "… and 2 more",
  ]);
});

Deno.test("a hundred thousand rules compile and decide", () => {
  const rules = Array.from(
    { length: 100_000 - 1 },
    (_, at) => rule("profile", `r${at}`, "block", `http.request.host == "h${at}.example"`),
  );
  const policy = compilePolicy(rules);
  assertEquals(decided(policy, http({ host: "h99998.example" })), ["block", "profile:r99998"]);
  assertEquals(policy.evaluate(http()).decision.evaluated, 3);
  assertThrows(() => compilePolicy([...rules, ...rules]), SbxError, "the limit is 100000");
});

Deno.test("a rule of a megabyte is rejected with its line by both parser and compiler", () => {
  const match = `http.request.host == "${"x".repeat(2 ** 20)}"`;
  const good = `[profiles.rules.good]\naction = "block"\nmatch = 'true'\n`;
  const text = `${good}[profiles.rules.huge]\naction = "block"\nmatch = '${match}'\n`;
  const refusals = [
    assertThrows(() => parseRules(text, "f.toml"), SbxError),
    assertThrows(
      () => compilePolicy([rule("profile", "huge", "block", match, { file: "f.toml", line: 6 })]),
      SbxError,
    ),
  ];
  for (const { code, message } of refusals) {
    assertEquals([code, message.split(" ")[0]], ["policy.invalid", "f.toml:6:"]);
    assert(message.length < 200, "the message must not repeat the rule");
  }
});

Deno.test("ten thousand rules are read with their lines", () => {
  const text = Array.from(
    { length: 10_000 },
    (_, at) => `[profiles.rules.r${at}]\naction = "block"\nmatch = 'http.request.host == "h${at}.example"'\n`,
  ).join("");
  const { decision } = compilePolicy(parseRules(text, "f.toml")).evaluate(http({ host: "h9999.example" }));
  assertEquals([decision.rule.id, decision.rule.line], ["r9999", 29_998]);
});

/** Invalid UTF-8. */
const INVALID_UTF8: [string, number[]][] = [
  ["a lone continuation byte", [0x23, 0x20, 0x80]],
  ["an overlong form", [0x23, 0x20, 0xc0, 0xaf]],
  ["half of a surrogate pair", [0x23, 0x20, 0xed, 0xa0, 0x80]],
  ["UTF-16", [0xff, 0xfe, 0x23, 0x00]],
  ["a truncated character", [0x23, 0x20, 0xe2, 0x82]],
];
for (const [what, bytes] of INVALID_UTF8) {
  Deno.test(`a rule file with ${what} is rejected as a whole`, async () => {
    const path = await Deno.makeTempFile({ suffix: ".toml" });
    try {
      const good = new TextEncoder().encode("[profiles.rules.a]\naction = \"block\"\nmatch = 'true'\n");
      await Deno.writeFile(path, Uint8Array.from([...good, ...bytes]));
      const { code, message } = await assertRejects(() => readRules(path), SbxError);
      assertEquals([code, message], ["policy.invalid", `${path} is not valid UTF-8`]);
    } finally {
      await Deno.remove(path);
    }
  });
}

/**
 * Patterns that never end in a backtracking engine, with a text of 50,000
 * characters and the expected decision.
 */
const SLOW_PATTERNS: [pattern: string, text: string, decision: string][] = [
  ["^(a+)+$", "a".repeat(50_000) + "!", "allow"],
  ["^(a|aa)+$", "a".repeat(50_000) + "!", "allow"],
  ["(.*a){12}$", "a".repeat(50_000), "block"],
  ["^(([a-z])+.)+[A-Z]([a-z])+$", "a".repeat(50_000), "allow"],
];
for (const [pattern, text, decision] of SLOW_PATTERNS) {
  Deno.test(`${pattern} runs in linear time, or exceeds its budget and blocks`, () => {
    const policy = compilePolicy([rule("profile", "r", "block", `http.request.path.matches("${pattern}")`)]);
    const { decision: { decision: made, rule: { id } }, failures } = policy.evaluate(http({ path: text }));
    if (failures.length) assertEquals([made, id], ["block", "r"]);
    else assertEquals(made, decision);
  });
}

/** Nested macros that exceed the budget. */
const BOMBS: Record<string, string> = {
  "all in all": `${"[1,2,3,4,5,6,7,8,9,10].all(x, ".repeat(7)}true${")".repeat(7)}`,
  "map of map": `size(${"[1,2,3,4,5,6,7,8,9,10].map(x, ".repeat(7)}x${")".repeat(7)}) > 0`,
  "filter over headers": `http.request.headers.all(a, ${"http.request.headers.all(b, ".repeat(5)}true${
    ")".repeat(5)
  })`,
  "matches in a loop":
    `[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, http.request.path.matches("a*$")))`,
};
for (const [what, match] of Object.entries(BOMBS)) {
  Deno.test(`a macro bomb is stopped, blocks its event, and does not affect other rules: ${what}`, () => {
    const headers = Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`x-${at}`, ["1"]]));
    const policy = compilePolicy([
      rule("profile", "bomb", "allow", match),
      rule("profile", "next", "allow", "http.request.port == 443", { detection_level: "low" }),
    ]);
    const { decision, failures, findings } = policy.evaluate(
      http({ headers, path: "/" + "a".repeat(50_000) }),
    );
    assertEquals([decision.decision, decision.rule.id, failures.length], ["block", "bomb", 1]);
    assert(failures[0].message.includes("budget"), failures[0].message);
    assertEquals(findings.map(({ rule_id }) => rule_id), ["next"]);
  });
}
