/**
 * sbx-activity: tells the host which programs run in the guest, what they do with files, and on which ports they listen, from the kernel's trace. What it says is testimony: root
 * in the guest can end it, or change what the kernel tells it. Where rules of the host restrict programs, they wait for its
 * answer. It starts no program itself, which would wait for itself.
 */
import { GUEST_WORKSPACE } from "../../../lib/event/mod.ts";
import { FrameReader } from "../../../lib/base/wire/mod.ts";
import { ACTIVITY_KEYS, type ActivityOrder, connectHost, PORTS } from "../../../lib/guest/wire/mod.ts";
import { FILE_EVENTS, type FileEvent } from "./file_probes.ts";
import { Files, mountsOf } from "./files.ts";
import { Holds } from "./holds.ts";
import { Keys } from "./keys.ts";
import { runningProcesses } from "./proc.ts";
import { Processes } from "./processes.ts";
import { Reports } from "./reports.ts";
import { KernelTrace, type TraceEvent } from "./trace.ts";

/** Tells init that a machine can be written down. */
const READY = "/run/sbx/activity";

const trace = await KernelTrace.open();
const reports = new Reports(trace.fileFormats !== undefined);
const processes = new Processes(trace.formats, traceClock(), (report) => reports.add(report));
const keys = new Keys(ACTIVITY_KEYS);
const holds = new Holds({
  agent: () => keys.agent,
  programOf: (thread) => processes.programOf(thread),
  send: (frame) => reports.send(frame),
  lose: (why) => reports.lose(why),
});
Deno.writeTextFileSync(READY, "");

// A machine that was written down gets a host with its first key, and another one after each time that it was away.
for (let isFirst = true;; isFirst = false) {
  const key = await keys.next();
  if (isFirst) begin();
  try {
    const conn = await connectHost(PORTS.activity);
    await reports.sendTo(conn, key);
    obey(conn);
  } catch (error) {
    // The host sends another key.
    console.error("sbx-activity:", error);
  }
}

/** Does what a host orders until it leaves. */
async function obey(conn: Deno.Conn): Promise<void> {
  const orders = new FrameReader(conn);
  try {
    for (let order = await orders.next(); order !== null; order = await orders.next()) {
      holds.take(order as ActivityOrder);
    }
  } catch {
    // Another host will come.
  }
}

function begin(): void {
  const mounts = mountsOf(["/", GUEST_WORKSPACE]);
  trace.start(mounts.keys());
  processes.seed(runningProcesses());
  const files = trace.fileFormats &&
    new Files(
      trace.fileFormats,
      mounts,
      (thread) => processes.programOf(thread),
      (report) => reports.add(report),
    );
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
}

function isOfFile(event: TraceEvent | FileEvent): event is FileEvent {
  return event in FILE_EVENTS;
}

/** Times of records as unix `ms`; the guest's clock is set when it gets its host. */
function traceClock(): (time: bigint) => number {
  const began = Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000 - performance.now();
  return (time) => Math.round(Date.now() - (performance.now() + began - Number(time) / 1e6));
}
