/** Profiles learned from recorded sessions. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import type { LabEvent } from "../../../../lib/lab/mod.ts";
import { checkProfile, learnProfile, profileRules } from "../../../../lib/lab/learn/mod.ts";
import { compilePolicy } from "../../../../lib/policy/mod.ts";
import { lintPolicy, parseRules } from "../../../../lib/policy/author/mod.ts";
import { parseProfile } from "../../../../lib/config/profile/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";
import { call, git, lookup, program, recorded, tool, touch, web } from "../../../helper/recording.ts";

const BASE = `id = "base"
name = "Base"
description = "d"
revision = "2.0.0"

[packages]
apt = ["git"]

[profiles.rules.old-allow]
action = "allow"
match = 'http.request.host == "other.example"'

[profiles.rules.no-delete]
action = "block"
match = 'http.request.method == "DELETE"'
`;

const baseOf = (text = BASE) => parseProfile(parseToml(text, "base"), { id: "base", source: "user" });

const SESSION: LabEvent[] = [
  lookup("api.example", ["203.0.113.7"]),
  web("https://api.example/v1/items?page=1"),
  web("https://api.example/v1/items", { method: "POST" }),
  git("git.example", "/team/app.git"),
  tool("files", "read"),
  call("claude-sonnet-4-5"),
  program("make test"),
  program("/usr/bin/gcc -c a.c", "vm"),
  program("sh -c 'npm ci'", "vm", ["sh", "-c", "npm ci"]),
  touch("/workspace/a.ts", "write"),
  touch("/workspace/.env"),
];

const learn = async (events: LabEvent[], base = baseOf()) => {
  const learned = await learnProfile({ id: "new", base, sessions: () => [{ id: "s", events }] });
  const profile = parseProfile(parseToml(learned.text, "new"), { id: "new", source: "user" });
  const policy = compilePolicy(profileRules(profile));
  return { ...learned, profile, decide: (event: LabEvent) => policy.evaluate(event).decision.decision };
};

Deno.test("the same session passes, and what deviates from it is asked about", async () => {
  const { decide, check, rules } = await learn(SESSION);
  assertEquals([check.ok, check.needed_count, rules.length], [true, SESSION.length, 11]);
  for (const event of SESSION) assertEquals(decide(event), "allow", JSON.stringify(event));
  const deviations: Record<string, LabEvent> = {
    "another host": web("https://evil.example/v1/items"),
    "another name": lookup("evil.example"),
    "another path": web("https://api.example/v1/users"),
    "another method": web("https://api.example/v1/items", { method: "PUT" }),
    "another port": web("https://api.example:8443/v1/items"),
    "another program of the host": program("wget x"),
    "another program of the VM": program("/usr/bin/nc evil.example", "vm"),
    "another line of a shell": program("sh -c 'curl x'", "vm", ["sh", "-c", "curl x"]),
    "a secret file": touch("/root/.ssh/id_ed25519"),
    "a file of another class": touch("/etc/passwd", "write"),
    "another tool": tool("files", "delete"),
    "another model": call("claude-opus-4-1"),
    "a push": git("git.example", "/team/app.git", "refs/heads/main"),
    "another repository": git("git.example", "/team/other.git"),
  };
  for (const [name, event] of Object.entries(deviations)) assertEquals(decide(event), "ask", name);
  assertEquals(
    decide(web("https://api.example/v1/items", { method: "DELETE" })),
    "block",
    "a block of the base",
  );
  assertEquals(decide(web("https://other.example/")), "ask", "an allow of the base is gone");
});

Deno.test("each rule tells which events need it, and an event that it allows and nobody recorded", async () => {
  const { rules, text, profile } = await learn(SESSION);
  for (const { id, witness_allowed, needed_by, also } of rules) {
    assert(witness_allowed && also !== "" && needed_by.count > 0, id);
    assertStringIncludes(
      text,
      `# needed by ${needed_by.count} event: ${needed_by.event_ids[0]}\n# would also allow: `,
    );
  }
  const lints = lintPolicy(compilePolicy(profileRules(profile)));
  assertEquals(lints.filter(({ severity }) => severity === "error"), []);
  assertEquals([profile.revision, profile.packages?.apt], ["1.0.0", ["git"]]);
});

Deno.test("the text depends on the events, not on their order", async () => {
  const events = [
    ...SESSION,
    ...SESSION.map((event, at) => ({
      ...event,
      common: { ...event.common, event_id: `${at}`.padStart(12, "0") },
    })),
  ];
  const { text } = await learn(events);
  assertEquals((await learn(events.toReversed())).text, text);
});

Deno.test("many entries of a folder are its beginning; the folders above stay named", async () => {
  const many = Array.from({ length: 20 }, (_, at) => web(`https://api.example/v1/items/${at}`));
  const { decide, rules } = await learn([...many, web("https://api.example/v1/users")]);
  assertEquals(rules.length, 1);
  assertStringIncludes(rules[0].also, "every path below /v1/items/");
  assertEquals(decide(web("https://api.example/v1/items/999")), "allow");
  assertEquals(decide(web("https://api.example/v1/itemsx")), "ask");
  assertEquals(decide(web("https://api.example/v2")), "ask");
});

Deno.test("a push is allowed for its refs", async () => {
  const { decide } = await learn([git("git.example", "/app.git", "refs/heads/work")]);
  assertEquals(decide(git("git.example", "/app.git", "refs/heads/work")), "allow");
  assertEquals(decide(git("git.example", "/app.git", "refs/heads/main")), "ask");
});

Deno.test("private addresses are named, in requests and in answers", async () => {
  const { decide, check } = await learn([
    lookup("wiki.example", ["10.8.0.1"]),
    web("http://10.8.0.1:8080/x"),
  ]);
  assert(check.ok);
  assertEquals(decide(lookup("wiki.example", ["10.8.0.2"])), "block");
  assertEquals(decide(web("http://10.8.0.2:8080/x")), "block");
});

Deno.test("without a record of programs and files of a VM, only its secret files are asked about", async () => {
  const { decide } = await learn([web("https://api.example/"), program("make")]);
  assertEquals(decide(program("/usr/bin/gcc", "vm")), "allow");
  assertEquals(decide(touch("/workspace/a.ts", "write")), "allow");
  assertEquals(decide(touch("/root/.aws/credentials")), "ask");
  assertEquals(decide(program("other")), "ask");
});

Deno.test("blocked events, ends of programs and the host's own files need nothing", async () => {
  const none = [
    { ...web("https://evil.example/"), decision: "block" },
    recorded("process.exit", { process: program("make").process }, { enforceability: "observe_only" }),
    {
      ...touch("/workspace/x", "import"),
      decision: undefined,
      common: { ...touch("/x").common, actor: "host" },
    },
  ] as LabEvent[];
  const { check, decide } = await learn([...none, web("https://api.example/")]);
  assertEquals([check.event_count, check.needed_count], [4, 1]);
  assertEquals(decide(web("https://evil.example/")), "ask");
  await refused("learn.empty", learn(none));
});

Deno.test("a profile that would refuse something recorded is not made", async () => {
  const event = web("https://api.example/v1/items", { method: "DELETE" });
  await refused("learn.failed", learn([event]));
  const report = await checkProfile(profileRules(baseOf()), [{
    id: "s",
    events: [event, web("https://api.example/")],
  }]);
  assertEquals([report.ok, report.needed_count, report.refused_count], [false, 2, 1]);
  assertEquals([report.refused[0].event_id, report.refused[0].rule_id], [event.common.event_id, "no-delete"]);
});

Deno.test("text that no rule can name is an error, and in a path or an argument widens the rule", async () => {
  await refused("learn.unnamed", learn([tool("files", "\ud800")]));
  const { rules, decide } = await learn([program("sh -c", "vm", ["sh", "-c", "\ud800"])]);
  assertEquals(decide(program("sh -c x", "vm", ["sh", "-c", "x"])), "allow");
  assertStringIncludes(rules[0].also, "any arguments");
});

Deno.test("a shell with arguments that no rule can name is one rule, whatever else it ran", async () => {
  const shells = ["make", "make test", "curl -H x:credential:blake3:00"].map((line) =>
    program(`sh -c ${line}`, "host", ["sh", "-c", line])
  );
  const { rules } = await learn([...shells, program("sh", "host"), program("make")]);
  assertEquals(rules.map(({ id, witness_allowed }) => [id, witness_allowed]), [
    ["run-host-sh", true],
    ["run-host", true],
  ]);
  const { decide } = await learn([program("sh", "host")]);
  assertEquals(decide(program("sh -c x", "host", ["sh", "-c", "x"])), "ask");
});

Deno.test("a base with rules in other files is refused, since they would be lost", async () => {
  await refused(
    "learn.base",
    learn(SESSION, baseOf(BASE.replace("[packages]", '[rule_files]\nenforcement = "r.toml"\n\n[packages]'))),
  );
});

async function refused(code: string, work: Promise<unknown>): Promise<void> {
  assertEquals((await assertRejects(() => work, SbxError)).code, code);
}

Deno.test("rules on earlier events are decided as in the VM: by the events of the session before", async () => {
  const rules = parseRules(
    `[profiles.rules.few]\naction = "block"\nmatch = 'has(http.request) && ` +
      `history.count("http.request", "true", "1h") >= 2'\n`,
    "profile.toml",
  );
  const request = (session_id: string) => {
    const event = web("https://api.example/");
    return { ...event, common: { ...event.common, session_id } };
  };
  const refused = { ...request("a"), decision: "block" };
  const sessions = (...numbers: number[]) =>
    numbers.map((number, at) => ({
      id: `s${at}`,
      events: [refused, ...Array.from({ length: number }, () => request(`s${at}`))],
    }));
  assertEquals((await checkProfile(rules, sessions(2, 2))).refused, []);
  const { refused_count, refused: [first] } = await checkProfile(rules, sessions(3));
  assertEquals([refused_count, first.rule_id, first.decision], [1, "few", "block"]);
});
