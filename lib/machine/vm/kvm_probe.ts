/** Trial of KVM with a guest's kernel. The evidence is the guest's console, KVM's counters, and QEMU's own message. */
import { join } from "node:path";
import type { Arch } from "../../base/arch/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { waitForSocket } from "./child.ts";
import { bareArguments } from "./command.ts";
import { FLOOR_REACHED, panicIn } from "./console.ts";
import { Qmp } from "./qmp.ts";

/** Boot files of the trial. */
export interface ProbeBoot {
  arch: Arch;
  kernel: string;
  initrd: string;
}

/** Limits of a trial, in `ms`; docs/design/contracts/02-http.md §2, "Accelerators". */
export interface ProbeLimits {
  /** from QEMU's start to the first message of init */
  boot: number;
  /** without a single exit of the guest to KVM */
  still: number;
  /** between two readings of the counters */
  interval: number;
}

const LIMITS: ProbeLimits = { boot: timeLimit(30_000), still: timeLimit(8000), interval: 250 };

/** Result of a trial. */
export interface ProbeResult {
  /**
   * `booted`: init has spoken; `interpreted`: KVM executes the guest's instructions one by one in software; `refused`:
   * QEMU ended before it had a guest; `failed`: the guest ended before init spoke; `still`: the guest does nothing;
   * `timed_out`: it was still running
   */
  outcome: "booted" | "interpreted" | "refused" | "failed" | "still" | "timed_out";
  /** one line */
  reason: string;
}

/** Instructions executed in software that prove interpretation: a whole boot under working KVM has some ten thousand. */
const INTERPRETED_MIN = 1_000_000;
/** The same per exit. KVM on old processors interprets real mode, at most 130 instructions an exit. */
const INTERPRETED_PER_EXIT = 200;
/** Longest text kept of a console or of standard error, in `characters`, and of a reason. */
const TEXT_MAX = 64 * 1024, REASON_MAX = 200;

/** A trial's QEMU may not outlive this process, which ends it by a signal. */
const BOUND = ["--no-new-privs", "--pdeathsig", "KILL", "--"];

/**
 * Boots a kernel under KVM to init's first word.
 *
 * @param dir an empty folder for QEMU's socket
 */
export async function probeKvm(
  qemu: string,
  boot: ProbeBoot,
  dir: string,
  limits: ProbeLimits = LIMITS,
): Promise<ProbeResult> {
  const began = performance.now();
  const monitor = join(dir, "qmp.sock");
  const args = [
    ...bareArguments({ ...boot, accelerator: "kvm", cpus: 1, ramMb: 256 }, ["sbx_floor=1"]),
    ...["-qmp", `unix:${monitor},server=on,wait=off`],
  ];
  const child = new Deno.Command("setpriv", {
    args: [...BOUND, qemu, ...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const console = new Text(), errors = new Text();
  const said = Promise.withResolvers<ProbeResult>();
  const read = Promise.all([
    console.read(child.stdout, (text) => {
      if (!FLOOR_REACHED.test(text)) return;
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      said.resolve({ outcome: "booted", reason: `KVM booted a kernel to its first program in ${seconds} s` });
    }),
    errors.read(child.stderr),
  ]);
  // The output before its end is read first.
  const ended = Promise.all([child.status, read]).then(([{ code, signal }]) =>
    endOf(console.text, errors.text, signal ?? `exit code ${code}`)
  );
  const stop = new AbortController();
  try {
    const late = new Promise<ProbeResult>((resolve) => {
      const seconds = Math.round(limits.boot / 1000);
      const reason = `KVM did not boot a kernel to its first program in ${seconds} s`;
      const timer = setTimeout(() => resolve({ outcome: "timed_out", reason }), limits.boot);
      stop.signal.addEventListener("abort", () => clearTimeout(timer));
    });
    return await Promise.race([
      said.promise,
      ended,
      late,
      watchCounters(monitor, child, limits, stop.signal),
    ]);
  } finally {
    stop.abort();
    killIfRunning(child);
    await ended;
  }
}

/** Meaning of QEMU's end without a message from init. */
function endOf(console: string, errors: string, status: string): ProbeResult {
  const panic = panicIn(console);
  if (panic !== undefined) {
    return { outcome: "failed", reason: `the kernel panicked under KVM: ${panic}` };
  }
  const message = lastLine(errors);
  if (console === "" && message !== undefined) {
    return { outcome: "refused", reason: `QEMU cannot use KVM: ${message}` };
  }
  return {
    outcome: "failed",
    reason: `QEMU ended before a kernel had booted under KVM (${message ?? status})`,
  };
}

/** Last line of QEMU's standard error, without the program's name. */
function lastLine(text: string): string | undefined {
  const line = text.trim().split("\n").at(-1)?.replace(/^\S*qemu-system-\w+: /, "");
  return line ? line.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, REASON_MAX) : undefined;
}

/** Settles when KVM's counters prove that the guest will not boot; never where QEMU or the kernel has no counters. */
async function watchCounters(
  path: string,
  child: Deno.ChildProcess,
  limits: ProbeLimits,
  signal: AbortSignal,
): Promise<ProbeResult> {
  const never = new Promise<ProbeResult>(() => {});
  if (!await waitForSocket(path, child, limits.boot, signal)) return never;
  const qmp = await Qmp.connect(path).catch(() => undefined);
  if (!qmp) return never;
  let last = -1, movedAt = performance.now();
  while (!signal.aborted) {
    const counters = await readCounters(qmp);
    if (!counters) return never;
    const { exits, interpreted } = counters;
    if (interpreted > INTERPRETED_MIN && interpreted > INTERPRETED_PER_EXIT * exits) {
      return {
        outcome: "interpreted",
        reason: "this host's KVM executes guests' instructions in software, slower than QEMU does",
      };
    }
    if (exits !== last) [last, movedAt] = [exits, performance.now()];
    const stillMs = performance.now() - movedAt;
    if (stillMs >= limits.still) {
      const seconds = Math.round(stillMs / 1000);
      return { outcome: "still", reason: `the guest did nothing under KVM for ${seconds} s` };
    }
    await new Promise((resolve) => setTimeout(resolve, limits.interval));
  }
  return never;
}

interface Counters {
  exits: number;
  /** instructions that KVM executed in software; only x86_64 has them */
  interpreted: number;
}

const QUERY = {
  target: "vcpu",
  providers: [{ provider: "kvm", names: ["exits", "insn_emulation"] }],
};

/** KVM's counters of the guest's processor. @returns undefined where QEMU (before 7.1) or the kernel has none */
async function readCounters(qmp: Qmp): Promise<Counters | undefined> {
  try {
    const [{ stats }] = await qmp.execute("query-stats", QUERY) as {
      stats: { name: string; value: number }[];
    }[];
    const valueOf = (name: string) => stats.find((each) => each.name === name)?.value;
    const exits = valueOf("exits");
    return exits === undefined ? undefined : { exits, interpreted: valueOf("insn_emulation") ?? 0 };
  } catch {
    return undefined;
  }
}

/** The end of a program's output. */
class Text {
  text = "";

  async read(from: ReadableStream<Uint8Array>, onText: (text: string) => void = () => {}): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of from) {
      this.text = (this.text + decoder.decode(chunk, { stream: true })).slice(-TEXT_MAX);
      onText(this.text);
    }
  }
}

function killIfRunning(child: Deno.ChildProcess): void {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
}
