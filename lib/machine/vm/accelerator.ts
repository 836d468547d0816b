/**
 * The accelerator of this host's machines. KVM is tried with a guest's kernel; the evidence is the guest's
 * console, KVM's counters and QEMU's own message.
 */
import { ignore } from "../../base/error/mod.ts";
import { join } from "node:path";
import { z } from "zod";
import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { bareArguments, BOARDS } from "./command.ts";
import type { Accelerator } from "./hypervisor.ts";
import { findProgram, findTools } from "./tools.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { waitForSocket } from "./helper.ts";
import { FLOOR_REACHED, panicIn } from "./console.ts";
import { Qmp } from "./qmp.ts";

/** Accelerator of this host's machines, and the reason; shown in a VM's info and in `sbx status`. */
export interface AcceleratorChoice {
  accelerator: Accelerator;
  reason: string;
  /** another trial could end differently: QEMU was refused KVM, or a boot was slow or broke off */
  isUnsure?: true;
}

/** Where a host has KVM and QEMU; another place in tests. */
export interface KvmHost {
  device: string;
  qemu(): string;
  limits?: ProbeLimits;
}

const THIS_HOST: KvmHost = {
  device: "/dev/kvm",
  qemu: () => findProgram(BOARDS[currentArch()].program) ?? findTools().qemu,
};

const Stored = z.strictObject({
  schema: z.literal("sbx.accelerator.v1"),
  key: z.string(),
  accelerator: z.enum(["kvm", "tcg"]),
  reason: z.string(),
});

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** Outcomes of a trial that decide for good; after others KVM is tried again. */
const SURE: readonly ProbeResult["outcome"][] = ["booted", "interpreted"];

/**
 * Chooses KVM if it runs a guest: `/dev/kvm` may exist and not work. A sure result of a trial is stored until
 * the host restarts or its QEMU changes.
 *
 * @param runDir folder of the stored result
 */
export async function chooseAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice> {
  return await knownAccelerator(boot, runDir, host) ?? await probeAccelerator(boot, runDir, host);
}

/** The choice that needs no trial. @returns undefined: KVM is there, and no sure result is stored */
export async function knownAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice | undefined> {
  const lack = await lackOfKvm(boot, host);
  if (lack !== undefined) return { accelerator: "tcg", reason: lack };
  return await readChoice(runDir, await keyOf(host.qemu()));
}

/**
 * Tries KVM, ignoring any stored result. A sure result is stored for {@linkcode chooseAccelerator}; any other
 * removes the stored one.
 */
export async function probeAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice> {
  const lack = await lackOfKvm(boot, host);
  if (lack !== undefined) return { accelerator: "tcg", reason: lack };
  const qemu = host.qemu();
  const dir = await Deno.makeTempDir({ prefix: "sbx-kvm-" });
  try {
    const { outcome, reason } = await probeKvm(qemu, boot, dir, host.limits);
    const isSure = SURE.includes(outcome);
    const accelerator = outcome === "booted" ? "kvm" : "tcg";
    await storeChoice(runDir, isSure ? { key: await keyOf(qemu), accelerator, reason } : undefined);
    if (accelerator === "kvm") return { accelerator, reason };
    return { accelerator, reason: `${reason}; VMs are emulated`, ...isSure ? {} : { isUnsure: true } };
  } finally {
    await Deno.remove(dir, { recursive: true }).catch(ignore("a temporary folder of a trial that is over"));
  }
}

/** Why guests are emulated without a trial; `undefined` where KVM can be tried. */
async function lackOfKvm({ arch }: ProbeBoot, { device }: KvmHost): Promise<string | undefined> {
  if (arch !== currentArch()) return `${arch} is emulated on ${currentArch()}`;
  const opened = await Deno.open(device, { read: true, write: true }).catch((error) => error as Error);
  if (!(opened instanceof Error)) return void opened.close();
  return opened instanceof Deno.errors.NotFound
    ? "this host has no /dev/kvm"
    : "this user may not open /dev/kvm; sbx doctor says what to do";
}

/** A host's QEMU, and one run of its kernel: results may differ after a restart. */
async function keyOf(qemu: string): Promise<string> {
  const [bootId, { mtime }] = await Promise.all([Deno.readTextFile(BOOT_ID), Deno.stat(qemu)]);
  return `${bootId.trim()} ${qemu} ${mtime?.getTime()}`;
}

async function readChoice(runDir: string, key: string): Promise<AcceleratorChoice | undefined> {
  try {
    const stored = Stored.parse(JSON.parse(await Deno.readTextFile(pathIn(runDir))));
    const { accelerator, reason } = stored;
    if (stored.key !== key) return undefined;
    return { accelerator, reason: accelerator === "kvm" ? reason : `${reason}; VMs are emulated` };
  } catch {
    return undefined;
  }
}

async function storeChoice(
  runDir: string,
  choice: Pick<z.infer<typeof Stored>, "key" | "accelerator" | "reason"> | undefined,
): Promise<void> {
  const path = pathIn(runDir);
  if (!choice) return await Deno.remove(path).catch(ignore("another trial replaces it"));
  await writeAtomic(path, JSON.stringify({ schema: "sbx.accelerator.v1", ...choice })).catch(
    ignore("a run folder that cannot be written costs another trial"),
  );
}

function pathIn(runDir: string): string {
  return join(runDir, "accelerator.json");
}

/** Boot files of the trial. */
interface ProbeBoot {
  arch: Arch;
  kernel: string;
  initrd: string;
}

/** Limits of a trial, in `ms`; docs/design/contracts/02-http.md §2, "Accelerators". */
interface ProbeLimits {
  /** from QEMU's start to the first message of init */
  boot: number;
  /** without a single exit of the guest to KVM */
  still: number;
  /** between two readings of the counters */
  interval: number;
}

const LIMITS: ProbeLimits = { boot: timeLimit(30_000), still: timeLimit(8000), interval: 250 };

/** Result of a trial. */
interface ProbeResult {
  /**
   * `booted`: init has spoken; `interpreted`: KVM executes the guest's instructions one by one in software;
   * `refused`: QEMU ended before it had a guest; `failed`: the guest ended before init spoke; `still`: the
   * guest does nothing; `timed_out`: it was still running
   */
  outcome: "booted" | "interpreted" | "refused" | "failed" | "still" | "timed_out";
  /** one line */
  reason: string;
}

/**
 * Instructions executed in software that prove interpretation: a whole boot under
 * working KVM has some ten thousand.
 */
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
async function probeKvm(
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

/**
 * Settles when KVM's counters prove that the guest will not boot; never where QEMU
 * or the kernel has no counters.
 */
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

/**
 * KVM's counters of the guest's processor.
 * @returns undefined where QEMU (before 7.1) or the kernel has none
 */
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
