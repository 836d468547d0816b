/** The process tree of a session's events. */
import { assertEquals } from "@std/assert";
import { type EventCommon, ProcessTreeBuilder } from "../../../lib/event/mod.ts";
import { processExec } from "../../helper/event.ts";
import { lookup, program, recorded, web } from "../../helper/recording.ts";

type Events = ReturnType<typeof web>[];

const processOf = (pid: number, ppid: number, name: string) => ({
  pid,
  ppid,
  executable: name,
  command: name,
  cwd: "",
});

const by = <T extends { common: EventCommon }>(event: T, pid: number, ppid: number, name: string): T => ({
  ...event,
  common: { ...event.common, process: processOf(pid, ppid, name) },
});

const exec = (pid: number, ppid: number, name: string) => by(program(name, "vm"), pid, ppid, name);

const exit = (pid: number, exit_code: number) =>
  recorded("process.exit", { process: { activity: processExec({ operation: "exit", exit_code }) } }, {
    process: processOf(pid, 0, ""),
  });

const treeOf = (events: Events) => {
  const builder = new ProcessTreeBuilder();
  for (const event of events) builder.add(event);
  return builder.tree();
};

/** Programs with their depth, exit code and other events. */
const shown = (events: Events) =>
  treeOf(events).processes.map(({ depth, command, exit_code, events }) =>
    [`${" ".repeat(depth)}${command}`, exit_code, events].filter((part) => part !== undefined)
  );

Deno.test("requests belong to the program that made them, below those that started it", () => {
  const events = [
    exec(10, 1, "make"),
    exec(11, 10, "python"),
    exec(12, 11, "git"),
    by(lookup("git.example"), 12, 11, "git"),
    by(web("https://git.example/"), 12, 11, "git"),
    by(web("https://git.example/"), 12, 11, "git"),
    exit(12, 0),
    exec(13, 10, "cc"),
    exit(11, 3),
  ];
  assertEquals(shown(events), [
    ["make", {}],
    [" python", 3, {}],
    ["  git", 0, { dns: 1, http: 2 }],
    [" cc", {}],
  ]);
  assertEquals(treeOf(events).processes.map(({ parent }) => parent), [undefined, 0, 1, 0]);
});

Deno.test("a program of the host ends by the event that started it, and has no pid", () => {
  const start = program("make test");
  const end = recorded("process.exit", {
    process: { activity: { ...start.process!.activity, operation: "exit", exit_code: 2 } },
  }, { actor: "host", labels: { event_id: start.common.event_id } });
  assertEquals(shown([program("make"), start, end]), [["make", {}], ["make test", 2, {}]]);
});

Deno.test("an exec of the same process is below it; a pid used again is another process", () => {
  assertEquals(shown([exec(5, 1, "sh"), exec(5, 1, "curl"), by(web("https://a.example/"), 5, 1, "curl")]), [
    ["sh", {}],
    [" curl", { http: 1 }],
  ]);
  assertEquals(shown([exec(5, 1, "sh"), exit(5, 0), exec(5, 1, "ls")]), [["sh", 0, {}], ["ls", {}]]);
  assertEquals(shown([exec(5, 1, "sh"), exec(5, 2, "ls")]), [["sh", {}], ["ls", {}]]);
});

Deno.test("a program without an exec stands alone, and events without a program are counted", () => {
  const { processes, unattributed } = treeOf([
    by(web("https://a.example/"), 7, 0, "curl"),
    { ...by(web("https://b.example/"), 7, 0, "curl"), decision: "block" },
    by(web("https://c.example/"), 7, 0, "wget"),
    web("https://d.example/"),
  ]);
  assertEquals(processes.map(({ command, events, blocked_count }) => [command, events, blocked_count]), [
    ["curl", { http: 2 }, 1],
    ["wget", { http: 1 }, 0],
  ]);
  assertEquals(unattributed, { http: 1 });
});

Deno.test("a blocked exec leaves the process what it was", () => {
  const blocked = { ...exec(5, 1, "nc"), decision: "block" as const };
  assertEquals(shown([exec(5, 1, "sh"), blocked, by(web("https://a.example/"), 5, 1, "sh")]), [
    ["sh", { http: 1 }],
    [" nc", {}],
  ]);
});

Deno.test("a guest that invents parents makes neither a cycle nor a tree too deep to print", () => {
  assertEquals(shown([exec(1, 2, "a"), exec(2, 1, "b"), exec(3, 3, "c")]), [["a", {}], [" b", {}], [
    "c",
    {},
  ]]);
  const chain = Array.from({ length: 20_000 }, (_, at) => exec(at + 1, at, "x"));
  assertEquals(treeOf(chain).processes.at(-1)!.depth, 19_999);
});

Deno.test("a program of the host is the process that its guest tells of, also after its end", () => {
  const host = program("make", "host");
  const { event_id } = host.common;
  const told = exec(10, 1, "/usr/bin/make");
  told.common.labels = { event_id };
  const ended = exit(0, 2);
  delete ended.common.process;
  ended.common.labels = { event_id };
  const [make, cc] =
    treeOf([host, ended, told, exec(11, 10, "cc"), exit(11, 0), exit(10, 2), exec(10, 1, "other")])
      .processes;
  assertEquals([make.event_id, make.pid, make.command, make.exit_code], [event_id, 10, "make", 2]);
  assertEquals([cc.parent, cc.pid], [0, 11]);
  assertEquals(shown([host, ended, told, exec(10, 1, "other")]).map(([name]) => name), ["make", "other"]);
});

Deno.test("a request that is recorded before its program belongs to it; one of long before does not", () => {
  const early = by(web("https://a.example/"), 12, 0, "curl");
  const late = exec(12, 11, "/usr/bin/curl");
  late.common.timestamp_unix_ms = early.common.timestamp_unix_ms + 200;
  assertEquals(shown([exec(11, 1, "make"), early, late]), [["make", {}], [" /usr/bin/curl", { http: 1 }]]);
  assertEquals(shown([early, exec(12, 12, "itself")]), [["itself", { http: 1 }]]);
  assertEquals(
    shown([early, exec(13, 12, "child"), exec(12, 13, "parent")]).map(([name]) => name),
    ["curl", " child", "  parent"],
  );
  late.common.timestamp_unix_ms += 60_000;
  assertEquals(shown([exec(11, 1, "make"), early, late]), [
    ["make", {}],
    [" /usr/bin/curl", {}],
    ["curl", { http: 1 }],
  ]);
});
