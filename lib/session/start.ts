/** Starts the machine of a session, from its disk, a template or its memory, and meets its guest. */
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import type { GuestLink, GuestState } from "../machine/guest/mod.ts";
import type { BootCall, MachineInfo } from "./ipc/mod.ts";
import type { Hypervisor, Machine, MachineSpec } from "../machine/vm/mod.ts";
import { bootDeadline, deathOf, rejoinDeadline, templateDeadline } from "./machine.ts";
import type { Enforcement } from "./enforcement.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import type { SpareGuest } from "./spare.ts";
import { discard, readAsks, readGuest, suspendedImage } from "./suspend.ts";

/** The start of a VM whose memory is on the disk. */
type FromMemory = Extract<BootCall["start"], { from: "suspended" }>;

/** The session whose machine starts. */
export interface StartingSession {
  hypervisor: Hypervisor;
  record: VmRecord;
  spec: MachineSpec;
  paths: Pick<SessionPaths, "suspended">;
  enforcement: Promise<Pick<Enforcement, "gate">>;
  /** its machine, where that was started ahead */
  spare?: SpareGuest;
  /** a new link to the guest, or one that listens already; one before it is closed */
  openLink(made?: GuestLink): Promise<GuestLink>;
  /** the machine that runs now, of which there may be a second one */
  onMachine(machine: Machine): void;
  onStarted(started: MachineInfo["started"]): void;
  /** notes the end of a stage @returns its time, in `ms` since the boot began */
  stage(name: string): number;
  /** it was stopped, or its boot has failed: a machine starting now is unwanted */
  isOver(): boolean;
}

/** Starts a machine and its guest. @returns the guest's stages @throws {SbxError} the boot failed */
export async function startMachine(session: StartingSession, start: BootCall["start"]): Promise<Stage[]> {
  return await Promise.race([startFrom(session, start), bootDeadline()]);
}

function startFrom(session: StartingSession, start: BootCall["start"]): Promise<Stage[]> {
  switch (start.from) {
    case "kernel":
      return fromKernel(session, start.why);
    case "template":
      return fromTemplate(session, start.dir);
    case "suspended":
      return fromSuspended(session, start);
  }
}

/** Resumes the memory of a suspended VM or of a copy, which is kept until its guest has answered. */
async function fromSuspended(session: StartingSession, { by, why }: FromMemory): Promise<Stage[]> {
  const { hypervisor, spec, stage, paths } = session;
  const [guest, asks] = await Promise.all([readGuest(paths), readAsks(paths)]);
  const link = await session.openLink();
  link.resume(guest);
  const machine = await hypervisor.restore(spec, suspendedImage(paths));
  await handOver(session, machine);
  stage("machine started");
  session.onStarted({ by, why });
  // The guest has no network before there is an enforcement.
  const asking = session.enforcement.then(({ gate }) => gate.asks.restore(asks));
  const [stages] = await Promise.all([
    meetGuest(session, machine, link, () => stage("guest connected")),
    asking,
  ]);
  await discard(paths);
  return stages;
}

/** Uses the machine that was started ahead. @returns undefined if it has ended meanwhile */
async function fromSpare(session: StartingSession, spare: SpareGuest): Promise<Stage[] | undefined> {
  const { stage } = session;
  const { machine, connected } = spare;
  const link = await session.openLink(spare.link);
  try {
    await handOver(session, machine);
    stage("machine started");
    session.onStarted({ by: "template" });
    // The guest counts from the moment that it connected.
    const epoch = () => stage("guest connected") - (performance.now() - connected);
    return await Promise.race([meetGuest(session, machine, link, epoch), templateDeadline()]);
  } catch (cause) {
    if (session.isOver()) throw cause;
    log.warn(`machine started ahead: ${asSbxError(cause, "starting the VM").message}`);
    await machine.kill();
  }
}

/** Starts from a template; where that fails, from the kernel. */
async function fromTemplate(session: StartingSession, dir: string): Promise<Stage[]> {
  const { hypervisor, spec, stage, spare } = session;
  const ready = spare && await fromSpare(session, spare);
  if (ready) return ready;
  const link = await session.openLink();
  let machine: Machine | undefined;
  try {
    machine = await hypervisor.restore(spec, { dir });
    await handOver(session, machine);
    stage("machine started");
    session.onStarted({ by: "template" });
    return await Promise.race([
      meetGuest(session, machine, link, () => stage("guest connected")),
      templateDeadline(),
    ]);
  } catch (cause) {
    if (session.isOver()) throw cause;
    const { message } = asSbxError(cause, "starting from memory");
    log.warn(`template ${dir}: ${message}`);
    await machine?.kill();
    return await fromKernel(session, `its template failed: ${message}`);
  }
}

async function fromKernel(session: StartingSession, why: string): Promise<Stage[]> {
  const { hypervisor, spec, stage } = session;
  if (session.isOver()) throw over();
  session.onStarted({ by: "cold", why });
  const link = await session.openLink();
  const machine = await hypervisor.start(spec);
  await handOver(session, machine);
  const spawned = stage("machine started");
  return await meetGuest(session, machine, link, () => spawned);
}

/** Gives a session its machine; one that comes after the session's end is killed. */
async function handOver(session: StartingSession, machine: Machine): Promise<void> {
  if (session.isOver()) {
    await machine.kill();
    throw over();
  }
  session.onMachine(machine);
}

function over(): SbxError {
  return new SbxError("vm.boot_failed", "the VM was stopped before it was ready");
}

/**
 * Sends a guest its start messages.
 *
 * @param epoch called when the guest's agent has connected; the begin of the guest's
 * own stages, in `ms` of the boot
 */
export async function meetGuest(
  { record, spec }: Pick<StartingSession, "record" | "spec">,
  machine: Machine,
  link: GuestLink,
  epoch: () => number,
): Promise<Stage[]> {
  const exited = machine.exited.then(async ({ code, signal }) => {
    const how = await deathOf(`${spec.logs}/console.log`) ?? signal ?? `exit code ${code}`;
    throw new SbxError("vm.boot_failed", `the machine ended before the guest was ready (${how})`, {
      hint: `${spec.logs}/console.log and qemu.log say more`,
    });
  });
  exited.catch(ignore("the race has it, unless the guest was first"));
  const talk = async () => {
    await link.connected();
    const began = epoch();
    const stages = await link.boot(record);
    return stages.map(({ name, ms }) => ({ name: `guest ${name}`, ms: began + ms }));
  };
  return await Promise.race([talk(), exited]);
}

/** Resumes a machine that was stopped to be saved, and sends its guest the start messages. */
export async function rejoinGuest(
  session: Pick<StartingSession, "record" | "spec" | "openLink"> & { isPaused(): boolean },
  machine: Machine,
  guest: GuestState,
): Promise<void> {
  const link = await session.openLink();
  link.resume(guest);
  await machine.rejoin();
  await Promise.race([meetGuest(session, machine, link, () => 0), rejoinDeadline(session.isPaused)]);
}

export type Stage = MachineInfo["boot_stages"][number];

/** Stages of one boot. */
export class Stages {
  readonly all: Stage[] = [];
  readonly #began = performance.now();

  /** Notes the end of a stage. @returns its time, in `ms` since the boot began */
  note(name: string): number {
    const ms = performance.now() - this.#began;
    this.all.push({ name, ms });
    return ms;
  }
}
