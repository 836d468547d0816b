/** The smallest set of rules with which commands pass. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { LabEvent } from "../../../../lib/lab/mod.ts";
import {
  learnProfile,
  minimise,
  OWN_PROGRAMS,
  profileRules,
  stepsOf,
  without,
} from "../../../../lib/lab/learn/mod.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import { BUILTIN_PROFILES, parseProfile } from "../../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { fileNameOf } from "../../../../lib/event/mod.ts";
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

const codeProfile = () =>
  parseProfile(parseToml(BUILTIN_PROFILES.get("code")!, "code"), { id: "code", source: "builtin" });

/** Both events of a program that the host ran to its end. */
function ran(argv: string[], exit_code: number, labels = {}): LabEvent[] {
  const { activity } = event({}).process!;
  const process = { activity: { ...activity, executable: argv[0], argv, operation: "exec" } };
  const begin = event({ process }, labels);
  const end = { activity: { ...process.activity, operation: "exit", exit_code } };
  return [begin, event({ process: end }, { ...labels, event_id: begin.common.event_id })];
}

const brought = (path: string, labels: Record<string, string>, decision = "allow"): LabEvent =>
  event({
    process: undefined,
    file: {
      activity: { operation: "import", path, path_class: "other", ...fileNameOf(path), byte_count: 1 },
    },
    decision,
  }, { client: "sbx", ...labels });

Deno.test("commands are what the host ran to its end, with folder and exit code", async () => {
  const [begin, end] = ran(["make", "test"], 3);
  const running = { ...event({}), common: { ...begin.common, event_id: "ffffffffffff" } } as LabEvent;
  const { argv, cwd } = begin.process!.activity;
  assertEquals(await stepsOf([begin, program("cc", "vm"), running, end]), {
    steps: [{ command: { argv, cwd, exit_code: 3 } }],
    commands: 1,
  });
  const error = await assertRejects(() => stepsOf([running]), SbxError);
  assertEquals(error.code, "learn.commands");
});

Deno.test("files come in again in their order, by sbx's own programs too, until the last command", async () => {
  const hash = "a".repeat(64);
  const { steps, commands } = await stepsOf([
    brought("/workspace/.sbx-in-1", { kind: "file", mode: "600", blake3: hash }),
    ...ran(["/bin/sh", "-c", "CLONE"], 0, { repository: "bring" }),
    brought("/srv/refused", { kind: "file", mode: "644", blake3: hash }, "block"),
    brought("/root/.config/key", { client: "sbx-service", kind: "file", blake3: hash }),
    brought("/srv", { kind: "folder" }),
    brought("/srv/now", { kind: "link", blake3: hash }),
    ...ran(["sbx-port", "8080", "open"], 0, { port: "open" }),
    ...ran(["/bin/sh", "-c", "COLLECT"], 0, { repository: "read" }),
    ...ran(["make"], 0),
    brought("/srv/later", { kind: "folder" }),
    ...ran(["/bin/sh", "-c", "COLLECT"], 0, { repository: "read" }),
  ]);
  assertEquals(commands, 1);
  assertEquals(
    steps.map((step) => "file" in step ? step.file : [step.command.argv.at(-1), step.command.isOwn]),
    [
      { path: "/workspace/.sbx-in-1", kind: "file", mode: "600", blake3: hash },
      ["CLONE", true],
      { path: "/srv", kind: "folder" },
      { path: "/srv/now", kind: "link", blake3: hash },
      ["make", undefined],
    ],
  );
});

Deno.test("what no trial can begin with is refused, with its reason", async () => {
  for (
    const [labels, words] of [
      [{ live: "/home/me/web" }, 'the folder "/home/me/web" of this host'],
      [{ snapshot: "s1234" }, "restored the snapshot s1234"],
      [{ blake3: "b" }, "an earlier version"],
    ] as const
  ) {
    const events = [brought("/workspace", labels), ...ran(["make"], 0)];
    const { code, message } = await assertRejects(() => stepsOf(events), SbxError);
    assertEquals(code, "learn.not_repeatable");
    assertStringIncludes(message, words);
  }
});

Deno.test("sbx's own programs have their rule before that of a shell with any arguments", async () => {
  const commands = Array.from({ length: 200 }, (_, at) => ran(["/bin/sh", "-c", `make ${at}`], 0)).flat();
  const own = ran(["/bin/sh", "-c", "CLONE", "sbx-repository", "a"], 0, { repository: "bring" });
  const { rules } = await learnProfile({
    id: "new",
    base: codeProfile(),
    sessions: () => [{ id: "s", events: [...own, ...commands] }],
  });
  assert(rules.some(({ also }) => also.includes("any arguments")));
  assertEquals(rules.map(({ witness_allowed }) => witness_allowed), rules.map(() => true));
});

Deno.test("a learned profile lets another push in, and no other shell of the host", async () => {
  const own = (argv: string[], repository = "bring") => ran(argv, 0, { repository })[0];
  const shell = (script: string) => ["/bin/sh", "-c", script, "sbx-repository", crypto.randomUUID()];
  const events = [own(shell("CLONE")), own(shell("COLLECT"), "read"), ...ran(["/bin/sh", "-c", "make"], 0)];
  const sessions = () => [{ id: "s", events }];
  const learned = await learnProfile({ id: "new", base: codeProfile(), sessions });
  const [{ witness_allowed }] = learned.rules.filter(({ match }) => match.includes(OWN_PROGRAMS));
  assertEquals(witness_allowed, true);
  const policy = compilePolicy(profileRules(parseProfile(parseToml(learned.text, "new"), {
    id: "new",
    source: "user",
  })));
  const decide = (of: LabEvent) => policy.evaluate(of).decision.decision;
  assertEquals(decide(own(shell("CLONE"))), "allow");
  assertEquals(decide(ran(["/bin/sh", "-c", "make"], 0)[0]), "allow");
  assertEquals(decide(ran(shell("CLONE"), 0)[0]), "ask");
});

Deno.test("a profile without a rule blocks in a trial what it asks about otherwise", async () => {
  const base = codeProfile();
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
