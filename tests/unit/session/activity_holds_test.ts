/** Programs of a guest that wait for the rules. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Wanted } from "../../../lib/session/activity/holds.ts";
import { hello, program, recording, started } from "../../helper/activity.ts";
import { eventually } from "../../helper/sbx.ts";

const RULES = `
[profiles.rules.no-git]
action = "block"
match = 'process.activity.executable == "git"'
reason = "no git"

[profiles.rules.ask-tac]
action = "ask"
match = 'process.activity.command.startsWith("tac")'

[profiles.rules.no-env]
action = "block"
match = 'file.activity.name == ".env" && common.process.executable != "/usr/bin/node"'
reason = "no secrets"

[profiles.rules.ask-lock]
action = "ask"
match = 'file.activity.operation == "write" && file.activity.path == "/workspace/lock"'

[profiles.rules.other-rm]
action = "rewrite"
match = 'process.activity.executable == "/usr/bin/rm"'
rewrite = [{ op = "replace", path = "process.activity.command", pattern = "rm", value = "ls" }]
`;

const asks = (id: number, ...argv: string[]) => ({
  t: "Permission",
  id,
  kind: "exec",
  ...program(10 + id, 4, ...argv),
});

const opens = (id: number, path: string, operations: string[], ...argv: string[]) => ({
  ...asks(id, ...argv),
  kind: "open",
  path,
  operations,
});
const PROGRAMS = { exec: true, read: false, write: false };
const HOLDING = { t: "Holding", exec: true, open: false };

/** A guest whose frames a test sends one after another. */
class Guest {
  readonly got: Record<string, unknown>[] = [];
  /** classes of the profile, each time that it was told them */
  readonly paths: unknown[] = [];
  readonly #frames: unknown[];
  #more = Promise.withResolvers<void>();
  #ended = false;

  constructor(...frames: unknown[]) {
    this.#frames = frames;
  }

  say(frame: unknown): void {
    this.#frames.push(frame);
    this.#more.resolve();
  }

  end(): void {
    this.#ended = true;
    this.#more.resolve();
  }

  async next(): Promise<unknown> {
    while (this.#frames.length === 0) {
      if (this.#ended) return null;
      await this.#more.promise;
      this.#more = Promise.withResolvers();
    }
    return this.#frames.shift();
  }

  send(frame: unknown): Promise<void> {
    if (this.#ended) return Promise.reject(new Error("it has ended"));
    const { t, paths } = frame as { t: string; paths: unknown };
    if (t === "Paths") this.paths.push(paths);
    else this.got.push(frame as Record<string, unknown>);
    return Promise.resolve();
  }
}

/** Lets everything happen that waits for nothing. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

async function held(rules = RULES, start?: number, wanted: Wanted = PROGRAMS) {
  const all = await recording(start, rules);
  all.record.holds.want(wanted);
  const guest = new Guest(hello(), started);
  const served = all.record.serve(guest);
  await settled();
  return { ...all, guest, served };
}

Deno.test("a program that may run is answered, and is no event of its own; one that may not is", async () => {
  const { gate, guest, served } = await held();
  assertEquals(guest.got, [{ t: "Hold", ...PROGRAMS }]);
  guest.say(asks(1, "make"));
  guest.say(asks(2, "git", "push"));
  guest.say({ ...asks(3, "x"), executable: "/tmp/x", opened: "/usr/bin/git" });
  guest.say(asks(4, "rm", "a"));
  await settled();
  const [first, second, third, fourth] = guest.got.slice(1).toSorted((a, b) => Number(a.id) - Number(b.id));
  assertEquals(first, { t: "Answer", id: 1, allow: true });
  for (const answer of [second, third]) {
    assertEquals(answer.allow, false);
    assertMatch(String(answer.text), /^sbx: blocked by policy: no git .*; sbx why \w+ shows the record$/);
  }
  assertMatch(String(fourth.text), /sbx can rewrite only programs it starts itself/);
  const decided = gate.entries.filter(({ decision }) => decision);
  assertEquals(
    decided.map(({ event: { common, process }, decision }) => [
      process!.activity.command,
      common.actor,
      common.enforceability,
      decision!.decision,
      decision!.rule.id,
    ]),
    [
      ["git push", "vm", "inline_blockable", "block", "no-git"],
      ["x", "vm", "inline_blockable", "block", "no-git"],
      ["rm a", "vm", "inline_blockable", "block", "guard-rewrite"],
    ],
  );
  guest.end();
  await served;
});

Deno.test("a program whose arguments a rule reads does not run where they cannot be read", async () => {
  const rule = `
[profiles.rules.no-force]
action = "block"
match = 'process.activity.executable == "git" && process.activity.argv.exists(word, word == "--force")'
`;
  const { guest, gate, served } = await held(rule);
  // A 32-bit call, whose arguments the guest cannot read, and a list that is longer than what it reads.
  guest.say({ ...asks(1), executable: "/usr/bin/git", argv: [], truncated: true });
  guest.say({ ...asks(2, "x"), opened: "/usr/bin/git", argv: ["x", "push"], truncated: true });
  guest.say({ ...asks(3, "ld", "a.o"), truncated: true });
  guest.say(asks(4, "git", "status"));
  await settled();
  const answers = guest.got.slice(1).toSorted((a, b) => Number(a.id) - Number(b.id));
  assertEquals(answers.map(({ allow }) => allow), [false, false, true, true]);
  assertMatch(String(answers[0].text), /rule "no-force" reads arguments.*guard-arguments/);
  assertEquals(gate.entries.filter(({ decision }) => decision).map(({ decision }) => decision!.rule.id), [
    "guard-arguments",
    "guard-arguments",
  ]);
  guest.end();
  await served;
});

Deno.test("what was opened by a mount that hides its name is refused, and on record", async () => {
  const { guest, gate, served } = await held();
  guest.say({ ...opens(1, "/mnt/x", ["read"], "cat"), hidden: true });
  guest.say({ ...asks(2, "x"), hidden: true });
  await settled();
  assertEquals(guest.got.slice(1).map(({ allow }) => allow), [false, false]);
  assertEquals(
    gate.entries.filter(({ decision }) => decision).map(({ event, decision }) => [
      event.common.event_type,
      decision!.rule.id,
    ]),
    [["file.activity", "guard-mount"], ["process.exec", "guard-mount"]],
  );
  guest.end();
  await served;
});

Deno.test("classes of a profile are told first, and decide on files", async () => {
  const rule = `
[profiles.rules.no-secrets]
action = "block"
match = 'file.activity.path_class == "secret"'
`;
  const { record, guest, gate, served } = await held(rule, undefined, {
    exec: false,
    read: true,
    write: false,
  });
  assertEquals(guest.paths, [{}]);
  guest.say(opens(1, "/srv/keys/a", ["read"], "cat"));
  await settled();
  record.usePaths({ "/srv/keys": "secret" });
  record.usePaths({ "/srv/keys": "secret" });
  guest.say(opens(2, "/srv/keys/a", ["read"], "cat"));
  await settled();
  assertEquals(guest.paths, [{}, { "/srv/keys": "secret" }]);
  assertEquals(guest.got.filter(({ t }) => t === "Answer").map(({ allow }) => allow), [true, false]);
  assertEquals(gate.entries.at(-1)!.event.file!.activity.path_class, "secret");
  guest.end();
  await served;
});

Deno.test("a file that a program wants to open is decided on by operation, path and program", async () => {
  const wanted: Wanted = {
    exec: false,
    read: [{ field: "name", op: "equals", values: [".env"] }],
    write: false,
  };
  const { gate, guest, served } = await held(RULES, undefined, wanted);
  assertEquals(guest.got, [{ t: "Hold", ...wanted }]);
  guest.say(opens(1, "/workspace/.env", ["read"], "cat", ".env"));
  guest.say(opens(2, "/workspace/.env", ["read", "write"], "node"));
  guest.say(opens(3, "/workspace/lock", ["read"], "cat"));
  guest.say(opens(4, "/workspace/lock", ["read", "write"], "cat"));
  await settled();
  const [, first, ...others] = guest.got;
  assertMatch(String(first.text), /^sbx: blocked by policy: no secrets .*; sbx why \w+ shows the record$/);
  assertEquals([first.allow, ...others], [
    false,
    { t: "Answer", id: 2, allow: true },
    { t: "Answer", id: 3, allow: true },
  ]);
  const [ask] = gate.asks.pending();
  gate.asks.resolve(ask.ask_id, { decision: "deny", scope: "once" });
  await settled();
  assertEquals([guest.got.at(-1)!.id, guest.got.at(-1)!.allow], [4, false]);
  assertEquals(
    gate.entries.filter(({ decision }) => decision).map(({ event: { common, file }, decision }) => [
      common.event_type,
      common.process!.command,
      common.enforceability,
      file!.activity.operation,
      file!.activity.path,
      decision!.rule.id,
    ]),
    [
      ["file.activity", "cat .env", "inline_blockable", "read", "/workspace/.env", "no-env"],
      ["file.activity", "cat", "inline_blockable", "write", "/workspace/lock", "ask-lock"],
    ],
  );
  guest.end();
  await served;
});

Deno.test("a file that may be read and written by any program is not asked about again", async () => {
  const match = 'file.activity.operation == "write" && !file.activity.path.startsWith("/workspace/")';
  const rules = `[profiles.rules.r]\naction = "block"\nmatch = '${match}'`;
  const { guest, served } = await held(rules, undefined, { exec: false, read: true, write: true });
  guest.say(opens(1, "/etc/hosts", ["read"], "cat"));
  guest.say(opens(2, "/workspace/a", ["read"], "cat"));
  await settled();
  assertEquals(guest.got.slice(1), [
    { t: "Answer", id: 1, allow: true },
    { t: "Answer", id: 2, allow: true, always: true },
  ]);
  guest.end();
  await served;
});

Deno.test("where files alone decide, the guest is told so", async () => {
  const { guest, served } = await held(RULES.slice(0, RULES.indexOf("[profiles.rules.ask-tac]")));
  guest.say(asks(1, "make"));
  await settled();
  assertEquals(guest.got[1], { t: "Answer", id: 1, allow: true, always: true });
  guest.end();
  await served;
});

Deno.test("one that is asked about waits for a person, also when its guest asks again or is away meanwhile", async () => {
  const { gate, record, link, guest, served } = await held();
  guest.say(asks(1, "tac"));
  guest.say(asks(1, "tac"));
  await settled();
  const [ask] = gate.asks.pending();
  assertEquals([gate.asks.pending().length, guest.got.length], [1, 1]);
  guest.end();
  await served;
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
  await settled();

  await eventually("the guest is asked again", () => link.asked > 1);
  const again = new Guest(hello(), started, asks(1, "tac"));
  const servedAgain = record.serve(again);
  await settled();
  assertEquals(again.got, [{ t: "Hold", ...PROGRAMS }, { t: "Answer", id: 1, allow: true }]);
  again.end();
  await servedAgain;
});

Deno.test("the host starts nothing before the guest holds its programs by the rules of now", async () => {
  const { record, guest, served } = await held();
  let isReady = false;
  const ready = record.holds.ready().then(() => isReady = true);
  record.holds.want(PROGRAMS);
  guest.say(HOLDING);
  await settled();
  assertEquals([isReady, guest.got.length], [false, 2]);
  guest.say(HOLDING);
  await ready;
  record.holds.want({ exec: false, read: false, write: false });
  await record.holds.ready();
  assertEquals(guest.got.at(-1), { t: "Hold", exec: false, read: false, write: false });
  guest.end();
  await served;
});

Deno.test("a guest that does not hold its programs gets none", async () => {
  // The deadline itself keeps no process alive.
  const alive = setInterval(() => {}, 10);
  const { record, guest, served } = await held(RULES, 20);
  await assertRejects(() => record.holds.ready(), SbxError, "does not hold its programs");
  guest.say(HOLDING);
  await settled();
  await record.holds.ready();
  guest.end();
  await served;
  await assertRejects(() => record.holds.ready(), SbxError, "none is started");
  clearInterval(alive);
});
