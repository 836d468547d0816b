/**
 * sbx-activity: reports programs, files and listening ports of the guest from the kernel's trace. Its reports
 * are testimony: root in the guest can end it, or change the kernel's reports to it. Where rules of the host
 * restrict programs, they wait for its answer. It starts no program itself, which would wait for itself.
 */
import type { NamedPaths } from "../../../lib/event/mod.ts";
import { FrameReader } from "../../../lib/base/wire/mod.ts";
import type { TraceEvent } from "../../../lib/machine/guest/trace/mod.ts";
import {
  ACTIVITY_KEYS,
  type ActivityOrder,
  connectHost,
  PORTS,
} from "../../../lib/machine/guest/wire/mod.ts";
import { FILE_EVENTS, type FileEvent, Files, mountsOf } from "./files.ts";
import { Holds, keeperOf } from "./holds.ts";
import { Keys, obey, Reports } from "./host.ts";
import { watchedMounts } from "./mounts.ts";
import { type RunningProcess, runningProcesses } from "./proc.ts";
import { Processes } from "./processes.ts";
import { exists, KernelTrace } from "./trace.ts";

/** Signals to init that a machine can be written down. */
const READY = "/run/sbx/activity";
/** Any user of the guest can use up its memory, which must not end this program: held programs would run. */
Deno.writeTextFileSync("/proc/self/oom_score_adj", "-1000");

const trace = await KernelTrace.open(!exists(READY));
const reports = new Reports(trace.fileFormats !== undefined);
const processes = new Processes(trace.formats, traceClock(), (report) => reports.add(report));
const files = trace.fileFormats &&
  new Files(
    trace.fileFormats,
    (thread) => processes.programOf(thread),
    (report) => reports.add(report),
  );
const keys = new Keys(ACTIVITY_KEYS);
const holds = new Holds({
  keeper: keeperOf(Deno.args[0]),
  agent: () => keys.agent,
  programOf: (thread) => processes.programOf(thread),
  send: (frame) => reports.send(frame),
  lose: (why) => reports.lose(why),
});
Deno.writeTextFileSync(READY, "");

// A machine that was written down gets a host with its first key, and another host each time it comes back.
for (let isFirst = true;; isFirst = false) {
  const key = await keys.next();
  const running = isFirst ? begin() : runningProcesses();
  try {
    const conn = await connectHost(PORTS.activity);
    await reports.greet(conn, key);
    const orders = new FrameReader(conn);
    // The first order chooses the reported files.
    await take(await orders.next());
    await reports.sendTo(conn, running);
    obey(orders, take);
  } catch (error) {
    // The host sends another key.
    console.error("sbx-activity:", error);
  }
}

/** @param order of the host; null when it has left */
async function take(order: unknown): Promise<void> {
  if (order === null) throw new Error("the host has left");
  const known = order as ActivityOrder;
  if (known.t === "Paths") choose(known.paths);
  await holds.take(known);
}

/** Reports the guest's own files, and files named by a profile. */
function choose(paths: NamedPaths): void {
  const mounts = mountsOf(watchedMounts(paths));
  trace.choose(mounts.keys(), Object.keys(paths).filter((path) => paths[path] === "secret"));
  files?.use(paths, mounts);
}

/** Begins to take the trace. @returns processes whose begin is not on record */
function begin(): RunningProcess[] {
  choose({});
  trace.switchOn();
  const running = runningProcesses();
  const begun = trace.begun((why) => reports.lose(why));
  const before = running.filter(({ pid }) => !begun.has(pid));
  processes.seed(before);
  // Where that fails, init starts this program again.
  trace.follow({
    take(event, record) {
      if (isOfFile(event)) return files?.take(event, record);
      if (event !== "listen") return processes.take(event, record);
      reports.listens(Number(trace.formats.listen.number(record, "sport")));
    },
    taken: () => reports.flush(),
    lost: (why) => reports.lose(why),
  });
  return before;
}

function isOfFile(event: TraceEvent | FileEvent): event is FileEvent {
  return event in FILE_EVENTS;
}

/** Times of records as unix `ms`; the guest's clock is set when it gets its host. */
function traceClock(): (time: bigint) => number {
  const began = Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000 - performance.now();
  return (time) => Math.round(Date.now() - (performance.now() + began - Number(time) / 1e6));
}
