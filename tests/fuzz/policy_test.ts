/** Properties of policy over random rules and events, with fixed seeds. */
import { assertEquals } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import { AskQueue } from "../../lib/policy/ask/queue.ts";
import { implies } from "../../lib/policy/author/witness.ts";
import { completeEvent, lintPolicy, parseRules } from "../../lib/policy/author/mod.ts";
import { environment } from "../../lib/policy/engine/cel.ts";
import { compileMatch } from "../../lib/policy/engine/compile.ts";
import { FlatEvent } from "../../lib/policy/engine/field.ts";
import { compileRegex, requiredLiterals } from "../../lib/policy/engine/regex.ts";
import { compilePolicy, type Rule } from "../../lib/policy/mod.ts";
import { Random } from "../helper/random.ts";
import { randomEvent, randomMatch, randomRule } from "../helper/random_policy.ts";

/** Reference implementation of the contract: every rule in order, without an index. */
function evaluateByReference(rules: Rule[], event: Event): { decision: string; findings: string[] } {
  const policy = compilePolicy(rules);
  const publicEvent = structuredClone(event);
  const isPrivate = event.http?.request.host === "10.0.0.1";
  if (isPrivate) publicEvent.http!.request.host = "192.0.2.1";
  let decision: string | undefined;
  let openAsk = false;
  const findings: string[] = [];
  for (const { rule, program } of policy.rules) {
    if (program(new FlatEvent(event)) !== true) continue;
    if (rule.detection_level) findings.push(rule.id);
    if (rule.action === "rewrite" || decision) continue;
    const overlooks = isPrivate && rule.action !== "block" && program(new FlatEvent(publicEvent)) === true;
    if (!overlooks) decision = rule.action;
    else if (rule.action === "ask") openAsk = true;
  }
  if (decision === "allow" && openAsk) decision = "ask";
  return { decision: decision ?? "block", findings };
}

Deno.test("fuzz: the index never changes a decision or a finding", () => {
  const random = new Random(4);
  for (let round = 0; round < 300; round++) {
    const rules = Array.from(
      { length: 1 + random.below(12) },
      (_, id) => randomRule(random, id, random.pick(["corp", "profile"])),
    )
      .map((rule): Rule =>
        rule.action === "rewrite" ? { ...rule, rewrite: [{ op: "strip_header", path: "x-none" }] } : rule
      );
    const policy = compilePolicy(rules);
    for (let at = 0; at < 10; at++) {
      const event = randomEvent(random);
      const { decision, findings } = policy.evaluate(event);
      const actual = { decision: decision.decision, findings: findings.map(({ rule_id }) => rule_id) };
      assertEquals(actual, evaluateByReference(rules, event), JSON.stringify({ round, rules, event }));
    }
  }
});

Deno.test("fuzz: no profile rule, file order, rewrite or approval undoes a corp block", async () => {
  const random = new Random(44);
  let blocks = 0;
  for (let round = 0; round < 300; round++) {
    const corp = Array.from({ length: 1 + random.below(4) }, (_, id) => randomRule(random, id, "corp"));
    const event = randomEvent(random);
    const alone = compilePolicy(corp).evaluate(event).decision;
    const profile = Array.from(
      { length: random.below(8) },
      (_, id) => randomRule(random, 100 + id, "profile"),
    );
    const shuffled = [...corp, ...profile].map((rule) => [random.next(), rule] as const).sort(([a], [b]) =>
      a - b
    )
      .map(([, rule]) => rule);
    const { decision, event: after } = compilePolicy(shuffled).evaluate(event);
    if (alone.decision === "block" && alone.rule.layer === "corp") {
      blocks++;
      assertEquals(decision.decision, "block", JSON.stringify({ round, corp, profile, event }));
    }
    // Corp allows the rewritten event too.
    if (decision.decision === "allow") {
      const there = compilePolicy(corp.filter(({ action }) => action !== "rewrite")).evaluate(after).decision;
      const isBlock = there.decision === "block" && there.rule.layer === "corp";
      assertEquals(isBlock, false, JSON.stringify({ round, corp, profile, event, after }));
    }
    if (decision.decision === "ask" && decision.rule.layer === "corp") {
      const queue = new AskQueue();
      const waiting = queue.ask(event, decision);
      const [{ ask_id }] = queue.pending();
      try {
        queue.resolve(ask_id, { decision: "allow", scope: random.pick(["session", "minutes"]), minutes: 5 });
        throw new Error("a corp ask was loosened");
      } catch (error) {
        assertEquals((error as SbxError).code, "policy.blocked");
      }
      queue.close();
      assertEquals((await waiting).decision, "block");
    }
  }
  assertEquals(blocks > 20, true);
});

Deno.test("fuzz: implications found by the linter hold", () => {
  const random = new Random(5);
  const events = Array.from({ length: 200 }, () => new FlatEvent(randomEvent(random)));
  let implied = 0;
  for (let round = 0; round < 3000; round++) {
    const [a, b] = [randomMatch(random, 1), randomMatch(random, 1)].map((match) => {
      const { text, condition } = compileMatch(match);
      return { match, condition, program: environment.parse(text) };
    });
    if (!implies(a.condition, b.condition)) continue;
    implied++;
    for (const event of events) {
      if (a.program(event) === true) {
        assertEquals(b.program(event), true, `${a.match} → ${b.match} on ${JSON.stringify(event.event)}`);
      }
    }
  }
  assertEquals(implied > 50, true);
});

Deno.test("fuzz: lint findings on random rules are confirmed by events", () => {
  const random = new Random(55);
  for (let round = 0; round < 150; round++) {
    const rules = Array.from(
      { length: 1 + random.below(8) },
      (_, id) => randomRule(random, id, random.pick(["corp", "profile"])),
    );
    const policy = compilePolicy(rules);
    for (const { code, rule_id, witness } of lintPolicy(policy)) {
      if (!witness) continue;
      const { program } = policy.rules.find(({ rule }) => rule.id === rule_id)!;
      assertEquals(program(new FlatEvent(completeEvent(witness))), true, `${code} ${JSON.stringify(rules)}`);
    }
    const decided = new Set(
      Array.from({ length: 100 }, () => policy.evaluate(randomEvent(random)).decision.rule.id),
    );
    for (const { code, rule_id } of lintPolicy(policy)) {
      if (
        code === "unreachable" || code === "hidden-block" || code === "redundant" || code === "never-true"
      ) {
        assertEquals(decided.has(rule_id), false, `${code} ${rule_id} ${JSON.stringify(rules)}`);
      }
    }
  }
});

Deno.test("fuzz: required literals are in every text matched by a pattern", () => {
  const random = new Random(444);
  const pieces = [
    "a",
    "b",
    "c",
    "\\.",
    ".",
    "a+",
    "b*",
    "c?",
    "[ab]",
    "[^c]",
    "(ab)",
    "(a|b)",
    "(bc)?",
    "(?:ab)+",
    "a{2}",
    "b{0,2}",
    "^",
    "$",
    "|",
    "\\d",
    "[]a]",
    "[\\]]",
    "ab",
    "abc",
  ];
  let matched = 0;
  for (let round = 0; round < 4000; round++) {
    const pattern = Array.from({ length: 1 + random.below(6) }, () => random.pick(pieces)).join("");
    const text = Array.from(
      { length: random.below(9) },
      () => random.pick(["a", "b", "c", ".", "]", "1", "ab", "abc"]),
    ).join("");
    let matches: boolean;
    try {
      matches = compileRegex(pattern).test(text);
    } catch {
      continue;
    }
    if (!matches) continue;
    matched++;
    for (const literal of requiredLiterals(pattern)) {
      assertEquals(text.includes(literal), true, `${pattern} on ${text}: ${literal}`);
    }
  }
  assertEquals(matched > 500, true);
});

Deno.test("fuzz: broken rule files cause only SbxErrors", () => {
  const random = new Random(4444);
  const good =
    `[corp.rules.a]\naction = "block"\nmatch = 'http.request.host == "x" && [1].all(v, v > 0)'\npriority = -20\n\n[profiles.rules.b]\nname = "B"\naction = "rewrite"\nmatch = '!has(dns.request.qname)'\nrewrite = [{ op = "set", path = "http.request.path", value = "/" }]\n`;
  const bits = [
    "'",
    '"',
    "[",
    "]",
    "(",
    ")",
    "=",
    "\n",
    "&&",
    "has(",
    "1/0",
    "__is",
    "\\x",
    "😀",
    "\u0000",
    "in",
    "?",
    "{",
    "}",
    ".",
    "true",
  ];
  for (let round = 0; round < 1500; round++) {
    let text = good;
    for (let change = 1 + random.below(3); change > 0; change--) {
      const at = random.below(text.length);
      text = text.slice(0, at) + (random.below(3) ? random.pick(bits) : "") +
        text.slice(at + random.below(4));
    }
    try {
      compilePolicy(parseRules(text, "f.toml")).evaluate(randomEvent(random));
    } catch (error) {
      if (!(error instanceof SbxError)) throw new Error(`round ${round}: ${text}`, { cause: error });
      assertEquals(["policy.invalid", "toml.invalid"].includes(error.code), true, error.code);
    }
  }
});
