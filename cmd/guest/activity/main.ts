/**
 * sbx-activity: tells the host which programs run in the guest, from the kernel's trace. What it says is testimony: root
 * in the guest can end it, or change what the kernel tells it. It starts no program, and nothing waits for it.
 */
import { ACTIVITY_KEYS, connectHost, PORTS } from "../../../lib/guest/wire/mod.ts";
import { Keys } from "./keys.ts";
import { runningProcesses } from "./proc.ts";
import { Processes } from "./processes.ts";
import { Reports } from "./reports.ts";
import { KernelTrace } from "./trace.ts";

/** Tells init that a machine can be written down. */
const READY = "/run/sbx/activity";

const reports = new Reports();
const trace = await KernelTrace.open();
const processes = new Processes(trace.formats, traceClock(), (report) => reports.add(report));
const keys = new Keys(ACTIVITY_KEYS);
Deno.writeTextFileSync(READY, "");

// A machine that was written down gets a host with its first key, and another one after each time that it was away.
for (let isFirst = true;; isFirst = false) {
  const key = await keys.next();
  if (isFirst) begin();
  try {
    await reports.sendTo(await connectHost(PORTS.activity), key);
  } catch (error) {
    // The host sends another key.
    console.error("sbx-activity:", error);
  }
}

function begin(): void {
  trace.start();
  processes.seed(runningProcesses());
  // Where that fails, init starts this program again.
  trace.follow({
    take: (event, record) => processes.take(event, record),
    taken: () => reports.flush(),
    lost: (why) => reports.lose(why),
  });
}

/** Times of records as unix `ms`; the guest's clock is set when it gets its host. */
function traceClock(): (time: bigint) => number {
  const began = Number(Deno.readTextFileSync("/proc/uptime").split(" ")[0]) * 1000 - performance.now();
  return (time) => Math.round(Date.now() - (performance.now() + began - Number(time) / 1e6));
}
