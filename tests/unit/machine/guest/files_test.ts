/** sbx-activity: what happens to files, out of records of the kernel's trace. */
import { assert, assertEquals } from "@std/assert";
import {
  FILE_PROBES,
  type FileEvent,
  type FileFormats,
  Files,
  NAMES_MAX,
  readFilter,
} from "../../../../cmd/guest/activity/files.ts";
import type { TraceRecord } from "../../../../cmd/guest/activity/record.ts";
import type { NamedPaths } from "../../../../lib/event/mod.ts";
import type { ActivityFrame } from "../../../../lib/machine/guest/wire/mod.ts";

const ROOT = 24, WORKSPACE = 31;
/** Longest expression of a probe (Linux: MAX_ARGSTR_LEN), and longest data of a record in a page. */
const EXPRESSION_MAX = 63, RECORD_MAX = 4080;

interface Told {
  device?: number;
  /** names from the file upwards; a root's is its own parent */
  names: (string | undefined)[];
  size?: number;
  flags?: number;
  thread?: number;
}

/** Reports of records. @param named classes of a profile */
function reportsOf(records: [FileEvent, Told][], named: NamedPaths = {}): ActivityFrame[] {
  const told = new Map<TraceRecord, Told>();
  const of = {
    number: (record: TraceRecord, name: string) =>
      BigInt(name === "dev" ? told.get(record)!.device ?? WORKSPACE : told.get(record)![name as "size"] ?? 0),
    text: (record: TraceRecord, name: string) => {
      const { names } = told.get(record)!;
      const at = Number(name.slice(1));
      return at < names.length ? names[at] : "/";
    },
  };
  const reports: ActivityFrame[] = [];
  const files = new Files(
    new Proxy({}, { get: () => of }) as FileFormats,
    (thread) => thread + 1000,
    (report) => reports.push(report),
  );
  files.use(named, new Map([[ROOT, ""], [WORKSPACE, "/workspace"]]));
  for (const [event, given] of records) {
    const record = { type: 0, pid: given.thread ?? 1, time: 0n, data: new DataView(new ArrayBuffer(0)) };
    told.set(record, given);
    files.take(event, record);
  }
  return reports;
}

const pathOf = (told: Told) => (reportsOf([["made", told]])[0] as { path: string }).path;

Deno.test("each operation has its path, the program of its thread, and the size of what was written", () => {
  assertEquals(
    reportsOf([
      ["created", { names: ["f", "a"] }],
      ["written", { names: ["f", "a"], size: 5 }],
      ["cut", { names: ["f", "a"], size: 2, thread: 2 }],
      ["removed", { device: ROOT, names: ["hosts", "etc"] }],
    ]),
    [
      { t: "File", operation: "create", path: "/workspace/a/f", pid: 1001 },
      { t: "File", operation: "write", path: "/workspace/a/f", pid: 1001, bytes: 5 },
      { t: "File", operation: "write", path: "/workspace/a/f", pid: 1002, bytes: 2 },
      { t: "File", operation: "delete", path: "/etc/hosts", pid: 1001 },
    ],
  );
});

Deno.test("a rename has both paths, also beside one of another thread and after one that failed", () => {
  const leaving = (thread: number, name: string): [FileEvent, Told] => ["leaving", { thread, names: [name] }];
  const renamed = (thread: number, name: string): [FileEvent, Told] => ["renamed", { thread, names: [name] }];
  const paths = reportsOf([
    leaving(1, "failed"),
    leaving(1, "a"),
    leaving(2, "b"),
    renamed(1, "c"),
    renamed(2, "d"),
    renamed(3, "e"),
  ]).map((frame) => frame.t === "File" && [frame.from, frame.path]);
  assertEquals(paths, [
    ["/workspace/a", "/workspace/c"],
    ["/workspace/b", "/workspace/d"],
    ["…", "/workspace/e"],
  ]);
});

Deno.test("an exchange is a rename of both files, whichever was recorded first; one that failed is none", () => {
  const told = (
    event: FileEvent,
    name: string,
    flags = 0,
  ): [FileEvent, Told] => [event, { names: [name], flags }];
  const paths = reportsOf([
    ...[told("leaving", ".env", 2), told("swapping", "a", 2), told("renamed", "a")],
    ...[told("swapping", "c", 2), told("leaving", "b", 2), told("renamed", "c")],
    ...[told("leaving", "d", 2), told("swapping", "e", 2), told("leaving", "f"), told("renamed", "g")],
  ]).map((frame) => frame.t === "File" && `${frame.from} ${frame.path}`.replaceAll("/workspace/", ""));
  assertEquals(paths, [".env a", "a .env", "b c", "c b", "f g"]);
});

Deno.test("reading is told of secrets only, and nothing of temporary files unless it is one", () => {
  const at = (device: number, ...names: string[]) => ({ device, names: names.reverse() });
  const reports = reportsOf([
    ["read", at(WORKSPACE, ".env")],
    ["read", at(WORKSPACE, ".envoy")],
    ["read", at(ROOT, "root", ".ssh", "config")],
    ["created", at(ROOT, "tmp", "x")],
    ["created", at(ROOT, "tmp", "id_rsa")],
    ["leaving", at(ROOT, "tmp", "x")],
    ["renamed", at(WORKSPACE, "x")],
  ]);
  assertEquals(reports.map((frame) => frame.t === "File" && `${frame.operation} ${frame.path}`), [
    "read /workspace/.env",
    "read /root/.ssh/config",
    "create /tmp/id_rsa",
    "rename /workspace/x",
  ]);
});

Deno.test("classes of a profile decide what is told, and hide no secret", () => {
  const at = (...names: string[]) => ({ device: ROOT, names: names.reverse() });
  const reports = reportsOf([
    ["created", at("tmp", "build", "a")],
    ["created", at("tmp", "builds")],
    ["created", at("root", ".cache", "x")],
    ["created", at("root", ".cache", "keep", "x")],
    ["created", at("root", ".cache", ".env")],
    ["readNamed", at("srv", "keys", "deep", "down")],
    ["readNamed", at("srv", "deep", "keys")],
  ], {
    "/tmp/build": "workspace",
    "/root/.cache": "temp",
    "/root/.cache/keep": "system",
    "/srv/keys": "secret",
  });
  assertEquals(reports.map((frame) => frame.t === "File" && `${frame.operation} ${frame.path}`), [
    "create /tmp/build/a",
    "create /root/.cache/keep/x",
    "create /root/.cache/.env",
    "read /srv/keys/deep/down",
  ]);
});

Deno.test("the kernel's filter has the names of secret paths, and lets everything through where it cannot", () => {
  const filter = readFilter(["/srv/keys", "/data"]);
  assertEquals(filter.split(" || ").length, 2 * NAMES_MAX);
  assert(filter.startsWith('n0 == "keys" || n1 == "keys"'));
  assertEquals(readFilter(['/srv/a"b']), "");
  assertEquals(readFilter(Array.from({ length: 32 }, (_, at) => `/srv/folder-${at}`)), "");
});

Deno.test("any name stays one: line breaks, a root's own, what the kernel could not read, and very deep ones", () => {
  assertEquals(pathOf({ names: ["a\n/etc/passwd"] }), "/workspace/a\n/etc/passwd");
  assertEquals(pathOf({ names: [] }), "/workspace");
  assertEquals(pathOf({ names: [undefined, "a"] }), "/workspace/a/…");
  const deep = Array.from({ length: 40 }, (_, at) => `d${at}`);
  assertEquals(pathOf({ names: deep }), `/workspace/…/${deep.slice(0, NAMES_MAX).reverse().join("/")}`);
  const long = pathOf({ names: Array.from({ length: NAMES_MAX }, () => "\u00e9".repeat(255)) });
  assert(long.length <= 4096);
});

Deno.test("files of other file systems, recorded before the kernel had its filter, are left out", () => {
  assertEquals(reportsOf([["made", { names: ["f"], device: 99 }]]), []);
});

Deno.test("the kernel takes the probes, and a record with the longest names", () => {
  for (const probe of FILE_PROBES) {
    const [, ...fields] = probe.split(" if ")[0].split(" ").slice(1);
    for (const field of fields) {
      const expression = field.slice(field.indexOf("=") + 1);
      assert(expression.length <= EXPRESSION_MAX, `${expression.length}: ${field}`);
    }
  }
  assert(NAMES_MAX * 256 + 128 <= RECORD_MAX);
});
