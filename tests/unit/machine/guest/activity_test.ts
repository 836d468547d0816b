/** sbx-activity: pages of the kernel's trace, and processes out of their records. */
import { assertEquals } from "@std/assert";
import { readPage, TraceFormat, type TraceRecord } from "../../../../cmd/guest/activity/record.ts";
import { Processes, type ProcessEvent } from "../../../../cmd/guest/activity/processes.ts";
import type { TraceFormats } from "../../../../cmd/guest/activity/trace.ts";
import type { ActivityFrame } from "../../../../lib/machine/guest/wire/mod.ts";

/** Format file of a record with a number and a text, as the kernel writes it. */
const FORMAT = `name: exec
ID: 1234
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] f;\toffset:8;\tsize:4;\tsigned:0;
\tfield:u64 p0;\toffset:12;\tsize:8;\tsigned:0;

print fmt: "f=%s"
`;

/** A record's payload: type, pid, place of the text, number, text. */
function payload(pid: number, text: string, number: bigint): Uint8Array {
  const chars = new TextEncoder().encode(`${text}\0`);
  const bytes = new Uint8Array(Math.ceil((20 + chars.length) / 4) * 4);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, 1234, true);
  view.setInt32(4, pid, true);
  view.setUint32(8, (chars.length << 16) | 20, true);
  view.setBigUint64(12, number, true);
  bytes.set(chars, 20);
  return bytes;
}

const header = (kind: number, delta: number) => {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, ((delta << 5) | kind) >>> 0, true);
  return bytes;
};

const word = (value: number) => {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value, true);
  return bytes;
};

function page(time: bigint, parts: Uint8Array[], flags = 0): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const bytes = new Uint8Array(4096);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, time, true);
  view.setUint32(8, (length | flags) >>> 0, true);
  let at = 16;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

Deno.test("a page of the trace: small and long records, times that are far apart, padding, records that were lost", () => {
  const format = new TraceFormat(FORMAT);
  const small = payload(7, "/bin/ls", 1n);
  const long = payload(8, "x".repeat(200), 2n);
  const { records, missed } = readPage(page(1000n, [
    ...[header(small.length / 4, 5), small],
    ...[header(30, 3), word(1)],
    ...[header(0, 2), word(long.length + 4), long],
    ...[header(29, 0), word(0), new Uint8Array(40)],
  ], 0x8000_0000));
  assertEquals(missed, true);
  assertEquals(
    records.map((
      record,
    ) => [record.type, record.pid, record.time, format.text(record, "f"), format.number(record, "p0")]),
    [
      [1234, 7, 1005n, "/bin/ls", 1n],
      [1234, 8, 1005n + 3n + (1n << 27n) + 2n, "x".repeat(200), 2n],
    ],
  );
});

Deno.test("a page that was cut, or is not one, has the records before the damage", () => {
  const record = payload(7, "/bin/ls", 1n);
  const whole = page(0n, [header(record.length / 4, 0), record, header(record.length / 4, 0), record]);
  assertEquals(readPage(whole.subarray(0, 16 + 4 + record.length + 8)).records.length, 1);
  for (let seed = 1; seed < 200; seed++) {
    const bytes = Uint8Array.from({ length: 4096 }, (_, at) => (at * seed * 31 + seed) & 255);
    readPage(bytes);
  }
});

Deno.test("text that the kernel could not read is not an empty one", () => {
  const format = new TraceFormat(FORMAT);
  const data = payload(7, "", 0n);
  const [record] = readPage(page(0n, [header(data.length / 4, 0), data])).records;
  assertEquals(format.text(record, "f"), "");
  record.data.setUint32(8, 20, true);
  assertEquals(format.text(record, "f"), undefined);
});

type Fields = Record<string, string | number>;

/** Reports of records, given as event, pid and fields. */
function reportsOf(
  records: [ProcessEvent, number, Fields?][],
  seed = [{ pid: 100, ppid: 1, uid: 0, cwd: "/workspace" }],
) {
  const fields = new Map<TraceRecord, Fields>();
  const of = {
    number: (record: TraceRecord, name: string) => BigInt(fields.get(record)![name] ?? 0),
    text: (record: TraceRecord, name: string) => fields.get(record)![name] as string | undefined,
  };
  const formats = new Proxy({}, { get: () => of }) as TraceFormats;
  const reports: ActivityFrame[] = [];
  const processes = new Processes(formats, (time) => Number(time) / 1e6, (report) => reports.push(report));
  processes.seed(seed.map((process) => ({ ...process, executable: "", argv: [] })));
  records.forEach(([event, pid, given = {}], at) => {
    const record: TraceRecord = {
      type: 0,
      pid,
      time: BigInt(at) * 1_000_000n,
      data: new DataView(new ArrayBuffer(0)),
    };
    fields.set(record, { pid, old_pid: pid, ...given });
    processes.take(event, record);
  });
  return reports;
}

const args = (...argv: string[]) =>
  Object.fromEntries(argv.flatMap((argument, at) => [[`p${at}`, 1], [`a${at}`, argument]]));
/** Pids that no process of this machine has. */
const [A, B, C] = [1 << 23, (1 << 23) + 1, (1 << 23) + 2];

Deno.test("an exec has its arguments, folder, user and parent, and its exit the time since", () => {
  assertEquals(
    reportsOf([
      ["fork", 100, { parent_pid: 100, child_pid: A }],
      ["chdir", A, { path: "sub/../deep" }],
      ["moved", A, { ret: 0 }],
      ["begin", A, args("./x", "a\nb")],
      ["owner", A, { uid: 1000 }],
      ["exec", A, { filename: "./x" }],
      ["fork", A, { parent_pid: A, child_pid: B }],
      ["begin", B, args("cc")],
      ["exec", B, { filename: "/usr/bin/cc" }],
      ["end", B, { code: 256 }],
      ["exit", B],
      ["end", A, { code: 9 }],
      ["exit", A],
    ]),
    [
      {
        t: "Exec",
        pid: A,
        ppid: 100,
        uid: 1000,
        executable: "/workspace/deep/x",
        argv: ["./x", "a\nb"],
        cwd: "/workspace/deep",
        started_ms: 5,
      },
      {
        t: "Exec",
        pid: B,
        ppid: A,
        uid: 1000,
        executable: "/usr/bin/cc",
        argv: ["cc"],
        cwd: "/workspace/deep",
        started_ms: 8,
      },
      { t: "Exit", pid: B, exit_code: 1, signal: 0, duration_ms: 2 },
      { t: "Exit", pid: A, exit_code: 137, signal: 9, duration_ms: 7 },
    ],
  );
});

Deno.test("copies of a program are not programs: the parent is the one above, and their exit is not told", () => {
  const reports = reportsOf([
    ["fork", 100, { parent_pid: 100, child_pid: A }],
    ["fork", A, { parent_pid: A, child_pid: B }],
    ["begin", B, args("ls")],
    ["exec", B, { filename: "/bin/ls" }],
    ["exit", A],
  ]);
  assertEquals(reports.map((report) => "ppid" in report ? [report.t, report.pid, report.ppid] : report.t), [
    ["Exec", B, 100],
  ]);
});

Deno.test("a thread that executes a program becomes the process; an exec that fails is none", () => {
  const reports = reportsOf([
    ["fork", 100, { parent_pid: 100, child_pid: A }],
    ["fork", A, { parent_pid: A, child_pid: C }],
    ["begin", C, args("none")],
    ["begin", C, args("real")],
    ["exec", A, { filename: "/bin/real", old_pid: C }],
  ]);
  assertEquals(reports.map((report) => "argv" in report && [report.pid, report.argv]), [[A, ["real"]]]);
});

Deno.test("arguments that the trace has not are left out, and said to be", () => {
  const many = Array.from({ length: 48 }, (_, at) => String(at));
  const reports = reportsOf([
    ["begin", A, args(...many)],
    ["exec", A, { filename: "/bin/many" }],
    ["exec", B, { filename: "/bin/unseen" }],
    ["begin", C, { p0: 1, a0: "first", p1: 1, p2: 1, a2: "third" }],
    ["exec", C, { filename: "/bin/fault" }],
  ]);
  assertEquals(
    reports.map((report) => "argv" in report && [report.executable, report.argv.length, report.truncated]),
    [["/bin/many", 48, true], ["/bin/unseen", 0, true], ["/bin/fault", 3, true]],
  );
});

Deno.test("a script of which the trace lacks an argument has its own arguments, not those of its interpreter", async () => {
  const path = await Deno.makeTempFile();
  await Deno.writeTextFile(path, "#!/bin/sh -e\nread line\n", { mode: 0o755 });
  await Deno.chmod(path, 0o755);
  const child = new Deno.Command(path, { args: ["a\nb", "c"], stdin: "piped", stdout: "null" }).spawn();
  try {
    const cmdline = () => Deno.readTextFileSync(`/proc/${child.pid}/cmdline`).split("\0");
    while (cmdline()[0] !== "/bin/sh") await new Promise((resolve) => setTimeout(resolve, 1));
    const [report] = reportsOf([
      ["begin", child.pid, { ...args(path, "", "c"), a1: undefined as unknown as string }],
      ["exec", child.pid, { filename: path }],
    ]);
    assertEquals("argv" in report && [report.argv, report.truncated], [[path, "a\nb", "c"], undefined]);
  } finally {
    await child.stdin.close();
    await child.status;
    await Deno.remove(path);
  }
});

Deno.test("a chdir that fails leaves the folder; one by descriptor asks the process, or it is unknown", () => {
  const cwds = reportsOf([
    ["fork", 100, { parent_pid: 100, child_pid: A }],
    ["chdir", A, { path: "/nowhere" }],
    ["moved", A, { ret: -2 }],
    ["exec", A, { filename: "/bin/a" }],
    ["movedTo", A, { ret: 0 }],
    ["exec", A, { filename: "b" }],
  ]).map((report) => "cwd" in report && [report.cwd, report.executable]);
  assertEquals(cwds, [["/workspace", "/bin/a"], ["", "b"]]);
});
