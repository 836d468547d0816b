/** The smallest set of rules with which commands pass. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { LabEvent } from "../../../../lib/lab/mod.ts";
import { commandsOf, learnProfile, minimise, profileRules, without } from "../../../../lib/lab/learn/mod.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import { BUILTIN_PROFILES, parseProfile } from "../../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { program, web } from "../../../helper/recording.ts";

/** A search among so many items, of which some are needed. */
async function search(count: number, needed: number[], runs = 1000) {
  const tried: number[][] = [];
  const found = await minimise(Array.from({ length: count }, (_, at) => at), (kept) => {
    tried.push([...kept]);
    return Promise.resolve(needed.every((each) => kept.includes(each)));
  }, runs);
  return { ...found, tried };
}

Deno.test("what is needed stays, whatever its place, and nothing else", async () => {
  for (const needed of [[], [0], [19], [3, 4, 17], Array.from({ length: 20 }, (_, at) => at)]) {
    const { kept, isComplete, runs, tried } = await search(20, needed);
    assertEquals([kept, isComplete, runs], [needed, true, tried.length]);
  }
});

Deno.test("few of many are found in few trials, and a bound ends the search with what has passed", async () => {
  const { runs } = await search(256, [77]);
  assertEquals(runs < 40, true, `${runs}`);
  const bounded = await search(256, [77, 200], 5);
  assertEquals([bounded.runs, bounded.isComplete], [5, false]);
  assertEquals(bounded.kept.includes(77) && bounded.kept.includes(200), true);
});

const event = (more: object, labels = {}): LabEvent => {
  const of = program("make test");
  return { ...of, ...more, common: { ...of.common, labels: { ...of.common.labels, ...labels } } } as LabEvent;
};

Deno.test("commands are what the host ran to its end, with folder and exit code", async () => {
  const begin = event({});
  const { event_id } = begin.common;
  const end = event({
    process: { activity: { ...begin.process!.activity, operation: "exit", exit_code: 3 } },
  }, {
    event_id,
  });
  const running = { ...event({}), common: { ...begin.common, event_id: "ffffffffffff" } } as LabEvent;
  const { argv, cwd } = begin.process!.activity;
  assertEquals(await commandsOf([begin, program("cc", "vm"), running, end]), [{ argv, cwd, exit_code: 3 }]);
  const error = await assertRejects(() => commandsOf([running]), SbxError);
  assertEquals(error.code, "learn.commands");
});

Deno.test("a profile without a rule blocks in a trial what it asks about otherwise", async () => {
  const base = parseProfile(parseToml(BUILTIN_PROFILES.get("code")!, "code"), {
    id: "code",
    source: "builtin",
  });
  const wanted = web("https://api.example/v1/items");
  const learned = await learnProfile({
    id: "new",
    base,
    sessions: () => [{ id: "s", events: [wanted] }],
  });
  const decide = (text: string, id: string) => {
    const profile = parseProfile(parseToml(text, id), { id, source: "user" });
    return compilePolicy(profileRules(profile)).evaluate(wanted).decision.decision;
  };
  const [{ id }] = learned.rules;
  assertEquals(decide(learned.text, "new"), "allow");
  const strict = without(learned, [id], { id: "trial", strict: true });
  assertEquals(decide(strict, "trial"), "block");
  assertStringIncludes(strict, "needed, and blocks everything else.");
  assertStringIncludes(strict, "# Everything else is blocked.");
  const text = without(learned, [id], { id: "new" });
  assertEquals(decide(text, "new"), "ask");
  assertStringIncludes(text, "everything-else");
});
