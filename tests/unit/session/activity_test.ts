/** What a guest reports of its programs, as the session records it. */
import { assertEquals } from "@std/assert";
import { Fold } from "../../../lib/session/activity/fold.ts";
import { channelOf, exec, exit, hello, program, recording, started } from "../../helper/activity.ts";
import { TestGate } from "../../helper/gate.ts";
import { eventually } from "../../helper/sbx.ts";

/** Waits for what waits for timers that keep no program alive. */
async function ends(over: Promise<unknown>): Promise<void> {
  let isOver = false;
  over.then(() => isOver = true);
  await eventually("it ends", () => isOver);
}

/** Types, commands and labels of the events. */
const seen = (gate: TestGate) =>
  gate.entries.map(({ event: { common, process } }): [string, string, Record<string, string>] => [
    common.event_type,
    process!.activity.command,
    common.labels,
  ]);

const findings = (gate: TestGate) =>
  gate.notices.flatMap((notice) => notice.type === "finding" ? [notice.payload.rule_id] : []);

Deno.test("the report of sbx's own program has its mark, and no other program has", async () => {
  const { gate, record } = await recording();
  record.hostStarted(10, "0123456789ab", "bring");
  await record.serve(channelOf(hello(), started, exec(10, 1, "sh"), exec(11, 10, "git"), exec(10, 1, "sh")));
  assertEquals(
    gate.entries.map(({ event: { common } }) => common.labels.repository).slice(-3),
    ["bring", undefined, undefined],
  );
});

Deno.test("programs of a guest are events, which name the host's program that they are", async () => {
  const { gate, record, problems } = await recording();
  record.hostStarted(10, "0123456789ab");
  await record.serve(channelOf(
    hello(),
    {
      t: "Process",
      ...program(1, 0, "init"),
      executable: "/bin/busybox",
      argv: ["/bin/busybox", "sh", "/init"],
    },
    { t: "Process", ...program(3, 1, "deno", "run", "/usr/lib/sbx/sbx-activity.js") },
    { t: "Process", ...program(4, 1, "early") },
    started,
    exec(10, 4, "make"),
    exec(11, 10, "cc", "-c", "x.c"),
    exit(11, 1),
    { ...exit(10, 137), signal: 9 },
    exit(4),
    exit(99),
  ));
  const events = gate.entries.map(({ event }) => event);
  assertEquals(
    seen(gate).map(([type, command, labels]) => {
      const { event_id, ...rest } = labels as Record<string, string>;
      const of = events.find(({ common }) => common.event_id === event_id);
      return [type, command, { ...rest, ...event_id && { of: of?.process?.activity.command ?? event_id } }];
    }),
    [
      ["process.exec", "early", { activity: "running", uid: "0" }],
      ["process.exec", "/usr/lib/sbx/sbx-activity.js", { activity: "begins", processes: "3" }],
      ["process.exec", "make", { uid: "0", started_ms: "1", of: "0123456789ab" }],
      ["process.exec", "cc -c x.c", { uid: "0", started_ms: "1" }],
      ["process.exit", "cc -c x.c", { duration_ms: "2", of: "cc -c x.c" }],
      ["process.exit", "make", { duration_ms: "2", signal: "9", of: "make" }],
      ["process.exit", "early", { duration_ms: "2", of: "early" }],
    ],
  );
  assertEquals(events[3].common.process, {
    pid: 11,
    ppid: 10,
    executable: "/usr/bin/cc",
    command: "cc -c x.c",
    cwd: "/workspace",
  });
  assertEquals(
    events.map(({ common }) => [common.actor, common.enforceability]).flat().filter((word, at, all) =>
      all.indexOf(word) === at
    ),
    ["vm", "observe_only"],
  );
  assertEquals(problems, [undefined]);
});

Deno.test("programs from before the report have their begin, and those of sbx that belong to the boot have no event", async () => {
  const { gate, record } = await recording();
  const own = (name: string) => ["/usr/bin/deno", "run", `/usr/lib/sbx/${name}`];
  record.hostStarted(10, "0123456789ab");
  await record.serve(channelOf(
    hello(),
    { t: "Process", ...program(1, 0, "/bin/busybox", "sh", "/init") },
    { t: "Process", ...program(2, 1, ...own("sbx-pty-agent.js")) },
    { t: "Process", ...program(3, 1, "/bin/busybox", "sh", "/init") },
    started,
    exec(10, 2, "make"),
    exec(11, 3, "/bin/busybox", "chroot", ".", ...own("sbx-net-proxy.js")),
    exec(11, 3, ...own("sbx-net-proxy.js")),
    exec(12, 11, "/usr/sbin/nft", "-f", "/usr/lib/sbx/net.nft"),
    exit(12),
    // It has ended before its arguments could be read.
    { ...exec(17, 11, "nft"), executable: "/usr/lib/sbx/bin/nft", argv: [] },
    exit(17),
    exec(13, 10, "/bin/busybox", "sh", "/init"),
    exec(14, 13, "cat", "/usr/lib/sbx/net.nft"),
    exec(15, 2, "cat", "/usr/lib/sbx/net.nft"),
    exit(11, 1),
    { ...exec(16, 1, ...own("sbx-net-proxy.js")), started_ms: Date.now() + 60_000 },
  ));
  assertEquals(
    seen(gate).map(([type, command, { event_id }]) => [type, command, event_id === "0123456789ab"]),
    [
      ["process.exec", "/usr/lib/sbx/sbx-activity.js", false],
      ["process.exec", "make", true],
      ["process.exec", "/bin/busybox sh /init", false],
      ["process.exec", "cat /usr/lib/sbx/net.nft", false],
      ["process.exec", "cat /usr/lib/sbx/net.nft", false],
      ["process.exit", own("sbx-net-proxy.js").join(" "), false],
      ["process.exec", own("sbx-net-proxy.js").join(" "), false],
    ],
  );
});

Deno.test("a connection without the key is refused and found once, and says nothing of programs", async () => {
  const { gate, record } = await recording();
  for (
    const first of [hello("f".repeat(32)), { t: "Activity" }, exec(7, 1, "forged"), {
      t: "Started",
      processes: 1,
    }]
  ) {
    await record.serve(channelOf(first, exec(8, 1, "forged")));
  }
  await record.serve(channelOf());
  assertEquals(seen(gate).map(([, command]) => command), ["/usr/lib/sbx/sbx-activity.js"]);
  assertEquals(gate.entries[0].decision?.rule.id, "guard-activity");
  assertEquals(findings(gate), ["activity-forged"]);
  await record.serve(channelOf(hello(), started, exec(9, 1, "real")));
  await record.serve(channelOf(hello(), exec(9, 1, "a key is good once")));
  assertEquals(seen(gate).at(-1)![1], "real");
});

Deno.test("a report that ends before its guest is a gap with a finding, and is asked for again", async () => {
  const { gate, record, link, problems, over } = await recording();
  await record.serve(channelOf(hello(), started));
  await eventually("it is asked for again", () => link.asked === 2);
  assertEquals(seen(gate).at(-1), ["process.exit", "/usr/lib/sbx/sbx-activity.js", {
    activity: "gap",
    why: "sbx-activity has ended",
  }]);
  assertEquals(findings(gate), ["activity-gap"]);
  assertEquals(problems, [undefined, "sbx-activity has ended"]);
  await record.serve(channelOf(hello(), started, { t: "Unknown" }));
  await eventually("it is asked for again", () => link.asked === 3);
  assertEquals(problems.slice(2), [undefined, "sbx-activity broke the protocol"]);
  assertEquals(findings(gate), ["activity-gap"], "one a minute");
  link.isOver = true;
  await record.serve(channelOf(hello(), started));
  await ends(over);
});

Deno.test("a report that ends because of a gap that it told is one gap", async () => {
  const { gate, record, link, problems, over } = await recording();
  await record.serve(channelOf(hello(), started, { t: "Gap", why: "the trace was switched off" }));
  await eventually("it is asked for again", () => link.asked === 2);
  assertEquals(seen(gate).map(([type]) => type), ["process.exec", "process.exit"]);
  assertEquals(problems, [undefined, "the trace was switched off"]);
  link.isOver = true;
  await record.serve(channelOf(hello(), started));
  await ends(over);
});

Deno.test("a guest that never reports is a gap; one that ends is none", async () => {
  const silent = await recording(10);
  await eventually("it is a gap", () => silent.problems.length > 0);
  assertEquals(silent.problems[0], "sbx-activity did not begin");
  await eventually("it is asked for again", () => silent.link.asked > 2);
  assertEquals(findings(silent.gate), ["activity-gap"]);
  assertEquals(seen(silent.gate).length, 1);
  silent.link.isOver = true;
  const ending = await recording();
  const served = ending.record.serve(channelOf(hello(), started));
  ending.link.isOver = true;
  await served;
  await ends(Promise.all([silent.over, ending.over]));
  assertEquals(findings(ending.gate), []);
});

Deno.test("records that the kernel has lost are a gap, after which the report goes on", async () => {
  const { gate, record } = await recording();
  await record.serve(
    channelOf(hello(), started, { t: "Gap", why: "the kernel's buffer was full" }, exec(5, 1, "ls")),
  );
  assertEquals(seen(gate).map(([type, command]) => [type, command]), [
    ["process.exec", "/usr/lib/sbx/sbx-activity.js"],
    ["process.exit", "/usr/lib/sbx/sbx-activity.js"],
    ["process.exec", "ls"],
  ]);
  assertEquals(findings(gate), ["activity-gap"]);
});

Deno.test("a flood of programs is counted in full, and a new program is recorded in it", async () => {
  const { gate, record } = await recording();
  const flood = Array.from({ length: 20_000 }, (_, at) => [exec(at + 10, 1, "cc"), exit(at + 10, at % 2)])
    .flat();
  await record.serve(channelOf(hello(), started, ...flood, exec(5, 1, "curl")));
  const events = seen(gate);
  const single = events.filter(([type, command]) => type === "process.exec" && command === "cc").length;
  const [, , labels] = events.find(([, command]) => command === "/usr/bin/cc")!;
  const { folded, failed } = labels as Record<string, string>;
  assertEquals(single + Number(folded), 20_000);
  const failures = gate.entries.filter(({ event }) => event.process!.activity.exit_code === 1).length;
  assertEquals(failures + Number(failed), 10_000);
  assertEquals(events.filter(([, command]) => command === "curl").length, 1);
});

Deno.test("the limits of a fold come back with time, and very many programs share one count", () => {
  let now = 0;
  const fold = new Fold(() => "(other programs)", () => now);
  let recorded = 0;
  for (let at = 0; at < 10_000; at++) if (fold.admits("/bin/x")) recorded++;
  assertEquals(recorded, 4000);
  now += 1000;
  for (let at = 0; at < 1000; at++) if (fold.admits("/bin/x")) recorded++;
  assertEquals(recorded, 4020);
  for (let at = 0; at < 2000; at++) fold.admits(`/bin/${at}`);
  const counts = fold.take();
  assertEquals(counts.get("/bin/x"), { count: 6980, failed: 0 });
  assertEquals(counts.size, 257);
  assertEquals([...counts.values()].reduce((sum, { count }) => sum + count, 0), 11_000 + 2000 - 4020 - 255);
  assertEquals(fold.take().size, 0);
});

Deno.test("a guest that repeats itself fills neither the record nor the host's memory", async () => {
  const { gate, record } = await recording();
  const repeated = Array.from({ length: 500 }, () => [{ t: "Gap", why: "x".repeat(4000) }, started]).flat();
  await record.serve(channelOf(hello(), started, ...repeated));
  assertEquals(seen(gate).length, 2);
  assertEquals(
    gate.notices.flatMap((notice) => notice.type === "finding" ? [notice.payload.title.length] : []),
    [250],
  );
  const { gate: other, record: full } = await recording();
  const long = (pid: number) => ({ t: "Process", ...program(pid, 1, "x", "y".repeat(8000)) });
  await full.serve(
    channelOf(
      hello(),
      started,
      ...Array.from({ length: 3000 }, (_, at) => long(at + 1)),
      exit(1),
      exit(3000),
    ),
  );
  assertEquals(
    other.entries.filter(({ event }) => event.common.event_type === "process.exit").map(({ event }) =>
      event.common.process?.pid
    ),
    [3000],
    "the oldest is forgotten",
  );
});

Deno.test("events of a program, and of its files, name its container, by which rules decide", async () => {
  const { gate, record } = await recording();
  const container = { id: "a".repeat(64), name: "db", image: "postgres:17" };
  await record.serve(channelOf(
    hello(),
    started,
    { ...exec(10, 1, "postgres"), container },
    { t: "File", operation: "create", path: "/workspace/x", pid: 10 },
    exit(10),
    exec(11, 1, "postgres"),
  ));
  const [, ...events] = gate.entries.map(({ event }) => event);
  assertEquals(events.map(({ common }) => common.process?.container), [
    container,
    container,
    container,
    undefined,
  ]);
  const rules = new TestGate(
    `[profiles.rules.db]
action = "block"
match = 'has(common.process.container) && common.process.container.image.startsWith("postgres:")'`,
  );
  assertEquals(events.map((event) => rules.preview(event).allowed), [false, false, false, true]);
});

const OUT = "/workspace/.sbx-out-bddf615f-5016-4e65-a1a5-7d08afeb0e94";
const HASH = "a9ebe122de4c832dcf21b311ff7d2c52a77e0f5a";
const LOOK = ["/bin/sh", "-c", "COLLECT", "sbx-repository", "/root/web", OUT];

/** Init, the agent, and a look of sbx that has begun. */
const looking = [
  hello(),
  {
    t: "Process",
    ...program(1, 0, "init"),
    executable: "/bin/busybox",
    argv: ["/bin/busybox", "sh", "/init"],
  },
  { t: "Process", ...program(2, 1, "deno", "run", "/usr/lib/sbx/sbx-pty-agent.js") },
  started,
  exec(10, 2, ...LOOK),
].map((frame) => "pid" in frame && frame.pid === 10 ? { ...frame, executable: "/bin/sh" } : frame);

const file = (pid: number, operation: string, path: string, from?: string) => ({
  t: "File",
  operation,
  path,
  pid,
  ...from && { from },
});

/** Commands that are events, besides the report's own. */
const recorded = (gate: TestGate) =>
  gate.entries.flatMap(({ event: { common, process, file } }) =>
    process?.activity.argv[0] === "/usr/lib/sbx/sbx-activity.js" ? [] : [
      file
        ? `${file.activity.operation} ${file.activity.path}`
        : `${common.event_type} ${process!.activity.command}`,
    ]
  );

Deno.test("a look of sbx at a VM's work is no event: its known programs, and the files that they write", async () => {
  const { gate, record } = await recording();
  record.looks.order(LOOK);
  const web = "/root/web/.git/objects/77";
  await record.serve(channelOf(
    ...looking,
    exec(11, 10, "git", "rev-parse", "-q", "--git-dir"),
    exit(11),
    exec(12, 10, "git", "add", "-A", "."),
    file(12, "create", `${web}/tmp_obj_dth3RS`),
    file(12, "write", `${web}/8c4db8b47c6506bcb98beb420bba214a981df6`),
    exit(12),
    exec(13, 10, "git", "bundle", "create", "-q", OUT, "refs/sbx/out", `^${HASH}`),
    file(13, "rename", OUT, `${OUT}.lock`),
    {
      ...exec(14, 13, "/usr/lib/git-core/git", "pack-objects", "--stdout"),
      executable: "/usr/lib/git-core/git",
    },
    exit(14),
    exit(13, 1),
    exit(10),
  ));
  assertEquals(recorded(gate), []);
});

Deno.test("a look of sbx hides nothing that it does not do itself", async () => {
  const { gate, record } = await recording();
  record.looks.order(LOOK);
  await record.serve(channelOf(
    ...looking,
    exec(11, 10, "git", "add", "-A", "."),
    // A filter, a hook and an alias of the repository; another command; a program of git's name elsewhere.
    { ...exec(12, 11, "/bin/sh", "-c", "evil"), executable: "/bin/sh" },
    exec(13, 12, "git", "write-tree"),
    exec(14, 10, "git", "push"),
    exec(15, 10, "git", "rev-parse", `--git-dir\u0000${HASH}`),
    { ...exec(16, 10, "git", "write-tree"), executable: "/tmp/git" },
    { ...exec(17, 10, "git", "write-tree"), truncated: true },
    // Files that it does not write, and the VM's own programs of the same name.
    file(11, "write", "/root/.ssh/id_ed25519"),
    file(11, "write", "/root/web/.git/hooks/post-commit"),
    file(11, "rename", "/root/web/.git/objects/x", "/root/web/secret"),
    exec(18, 9, "git", "write-tree"),
    file(18, "write", "/root/web/.git/objects/aa/bb"),
    // The same look a second time was not ordered.
    { ...exec(19, 2, ...LOOK), executable: "/bin/sh" },
    // A fork of the VM's own may have its pid by now.
    exit(10),
    exec(20, 10, "git", "update-ref", "refs/sbx/out", HASH),
  ));
  assertEquals(recorded(gate), [
    "process.exec /bin/sh -c evil",
    "process.exec git write-tree",
    "process.exec git push",
    `process.exec git rev-parse --git-dir\u0000${HASH}`,
    "process.exec git write-tree",
    "process.exec git write-tree",
    "write /root/.ssh/id_ed25519",
    "write /root/web/.git/hooks/post-commit",
    "rename /root/web/.git/objects/x",
    "process.exec git write-tree",
    "write /root/web/.git/objects/aa/bb",
    `process.exec ${LOOK.join(" ")}`,
    `process.exec git update-ref refs/sbx/out ${HASH}`,
  ]);
});

Deno.test("looks are events once a program of the VM has changed one that they run", async () => {
  for (
    const change of [
      file(9, "write", "/usr/bin/git"),
      file(9, "rename", "/usr/bin/git", "/tmp/evil"),
      file(9, "rename", "/tmp/away", "/bin/sh"),
      file(9, "create", "/etc/ld.so.preload"),
      // The folder that it is in.
      file(9, "rename", "/usr/lib/git-core", "/tmp/evil"),
      file(9, "delete", "/bin"),
    ]
  ) {
    const { gate, record } = await recording();
    record.looks.order(LOOK);
    const [begin, look] = [looking.slice(0, -1), looking.at(-1)];
    await record.serve(channelOf(...begin, change, look, exec(11, 10, "git", "write-tree"), exit(11)));
    assertEquals(recorded(gate).slice(1), LOOK_ON_RECORD);
  }
});

const LOOK_ON_RECORD = [
  `process.exec ${LOOK.join(" ")}`,
  "process.exec git write-tree",
  "process.exit git write-tree",
];

Deno.test("looks are events once a look itself was made to change one of its programs, as by a link in its way", async () => {
  const { gate, record } = await recording();
  record.looks.order(LOOK);
  const again = LOOK.with(-1, OUT.replace("bddf", "0000"));
  record.looks.order(again);
  await record.serve(channelOf(
    ...looking,
    exec(11, 10, "cp", "-p", "/root/web/.git/index", "/tmp/tmp.a1"),
    file(11, "write", "/usr/bin/git"),
    exit(11),
    exec(12, 10, "git", "write-tree"),
    { ...exec(20, 2, ...again), executable: "/bin/sh" },
  ));
  assertEquals(recorded(gate), [
    "write /usr/bin/git",
    "process.exec git write-tree",
    `process.exec ${again.join(" ")}`,
  ]);
});

Deno.test("looks are events where the guest may have changed their programs unseen", async () => {
  const blind = looking.map((frame) => frame.t === "Started" ? { ...frame, files: false } : frame);
  const gap = { t: "Gap", why: "records were lost" };
  for (const frames of [blind, [...looking.slice(0, -1), gap, looking.at(-1)!]]) {
    const { gate, record } = await recording();
    record.looks.order(LOOK);
    await record.serve(channelOf(...frames, exec(11, 10, "git", "write-tree"), exit(11)));
    assertEquals(recorded(gate), LOOK_ON_RECORD);
  }
});
