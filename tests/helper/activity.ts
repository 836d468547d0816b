/** A guest that reports what its programs do, and the record of that. */
import { type ActivityLink, ActivityRecord } from "../../lib/session/activity/mod.ts";
import { TestGate } from "./gate.ts";

const KEY = "0123456789abcdef0123456789abcdef";

/** Guest that reports these frames. */
export const channelOf = (...frames: unknown[]) => ({
  next: () => Promise.resolve(frames.shift() ?? null),
  send: () => Promise.resolve(),
});
export const hello = (key = KEY) => ({ t: "Activity", key });
export const program = (pid: number, ppid: number, ...argv: string[]) => ({
  pid,
  ppid,
  uid: 0,
  executable: `/usr/bin/${argv[0]}`,
  argv,
  cwd: "/workspace",
});
export const exec = (pid: number, ppid: number, ...argv: string[]) => ({
  t: "Exec",
  ...program(pid, ppid, ...argv),
  started_ms: 1,
});
export const exit = (pid: number, exit_code = 0) => ({
  t: "Exit",
  pid,
  exit_code,
  signal: 0,
  duration_ms: 2,
});
export const started = { t: "Started", processes: 3, files: true };

/** Link to a guest that has booted; each request for a report makes the key good again. */
class TestLink implements ActivityLink {
  asked = 0;
  isOver = false;
  #isGood = false;

  booted() {
    return Promise.resolve();
  }

  askActivity() {
    this.asked++;
    this.#isGood = true;
    return Promise.resolve();
  }

  admitsActivity(key: string) {
    const isGood = this.#isGood && key === KEY;
    if (isGood) this.#isGood = false;
    return isGood;
  }
}

/** A record whose report is awaited. */
export async function recording(start = 60_000, rules = "") {
  const gate = new TestGate(rules);
  const problems: (string | undefined)[] = [];
  const ports: number[] = [];
  const record = new ActivityRecord(gate, {
    onProblem: (problem) => problems.push(problem),
    onListen: (port) => ports.push(port),
  }, {
    start,
    grace: 10,
    retry: 10,
  });
  const link = new TestLink();
  const over = record.follow(link);
  await Promise.resolve();
  await Promise.resolve();
  return { gate, record, link, problems, ports, over };
}
