/**
 * Copies of VMs. Their files are made in a folder beside the VMs, and moved to their places when complete.
 */
import { type ForkRequest, VM_NAME } from "../../client/api/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";
import {
  type Contract,
  type ForkedFrom,
  isSuspended,
  madeBy,
  sessionPaths,
  type VmPaths,
  vmPaths,
  type VmRecord,
  writeContract,
  writeRecord,
  writeState,
} from "../../session/mod.ts";
import { type Boot, makeBoot, readRequest, type VmRequest, writeRequest } from "./boot.ts";
import { acceleratorOf, keptMachine } from "./suspension.ts";
import { requireAction, requireFree, type Vm } from "./vm.ts";
import type { MakeOptions, VmMakerOptions } from "./creation.ts";
import { VmProcess } from "./vm_process.ts";
import { exclusive } from "./vm_states.ts";
import { dirname, join } from "node:path";
import { copyLinks, copySparse } from "../../base/copy/mod.ts";
import { log } from "../../base/log/mod.ts";
import { readLast } from "../../ledger/read/mod.ts";
import { Room } from "../../repo/mod.ts";
import { SnapshotStore } from "../../machine/snapshot/mod.ts";
import { execBuffered } from "../run/exec.ts";
import { count } from "../../base/text/mod.ts";

/** Characters of the source's name in generated names; a name has at most 64. */
const PREFIX_CHARS = 56;

/** New VMs, booting. */
export interface Forked {
  vms: Vm[];
  /** time that a running source stood still, in `ms` */
  stillMs?: number;
}

/** Makes copies of VMs: of stopped ones, and with their memory of suspended and running ones. */
export class Forks {
  readonly #options: VmMakerOptions;
  readonly #hypervisor: Hypervisor;
  readonly #home: Home;

  constructor(options: VmMakerOptions) {
    this.#options = options;
    this.#hypervisor = options.hypervisor;
    this.#home = options.home;
  }

  /**
   * Makes one or more VMs from one moment of a VM, and starts them; each `booting` settles with its boot.
   * Either all of them are made, or none.
   *
   * @param options.at a snapshot of the workspace: they boot with that and the source's disk, without its
   * memory; or the number of a state of repositories, which the caller puts into them
   * @param options.client the program that asked
   * @param options.asked key of a request that may come again
   * @throws {SbxError} `vm.wrong_state`, `snapshot.not_found`, `vm.not_supported`, `vm.name_taken`,
   * `vm.limit`, `vm.busy`, `vm.fork_failed`, `disk.full`, and errors of {@linkcode makeBoot}
   */
  async fork(
    source: Vm,
    { name, count = 1, at }: ForkRequest,
    { client, asked }: Pick<MakeOptions, "client" | "asked"> = {},
  ): Promise<Forked> {
    this.#hypervisor.requireHost();
    await this.#require(source, at);
    const names = namesOf(name, count);
    return await exclusive(source, "fork", async () => {
      const request = await readRequest(source.paths, source.record);
      const boot = await makeBoot(this.#options, source.record.profile_id, request);
      const kept = at === undefined ? await this.#kept(source) : {};
      if (kept.assets) await this.#options.standing.requireMachine(source.record.name, kept.assets);
      if (kept.assets) await acceleratorOf(source, this.#options, boot.assets);
      await this.#require(source, at);
      const { devcontainer, agent } = source.record;
      const record = {
        ...boot.record,
        ...kept,
        ...agent !== undefined && { agent },
        ...devcontainer && { devcontainer },
        made_by: madeBy(client),
        ...asked && { asked },
      };
      const vms = this.#reserve(source, record, names);
      const content = { request, contract: boot.contract, at };
      const stillMs = await makeForkFiles(this.#home, source, vms, content).catch((error) => {
        for (const vm of vms) this.#options.registry.remove(vm);
        throw error;
      });
      await this.#launch(vms, boot).catch(async (error) => {
        await Promise.all(vms.map((vm) => this.#remove(vm)));
        throw error;
      });
      return { vms, stillMs };
    });
  }

  /** @throws {SbxError} `vm.wrong_state`, `vm.not_supported`, `snapshot.not_found` */
  async #require(source: Vm, at?: string): Promise<void> {
    const { record: { name, live, parent }, state: { state }, paths } = source;
    if (at !== undefined && state === "Suspended") {
      throw new SbxError(
        "vm.wrong_state",
        `"${name}" is suspended: its memory has writes that its disk lacks`,
        {
          hint: `sbx resume ${name} first, or fork it without --at`,
        },
      );
    }
    // Without memory, a running one needs only stand still.
    const action = at !== undefined && state === "Running" && !live && !parent ? "pause" : "fork";
    // A copy would be free of a finding's hold.
    requireAction(source, source.state.response ? "fork" : action, this.#hypervisor);
    if (at === undefined) return;
    // A state of its repositories, which is put into the running copies.
    if (!isSnapshot(at)) return;
    const snapshots = await new SnapshotStore(paths.snapshots, paths.workspace).list();
    if (snapshots.some(({ id }) => id === at)) return;
    throw new SbxError("snapshot.not_found", `"${name}" has no snapshot "${at}"`, {
      hint: `sbx snapshots list ${name} shows them`,
    });
  }

  /** Memory fits only the machine that it is from. */
  async #kept({ record, paths, state }: Vm): Promise<Partial<VmRecord>> {
    if (state.state !== "Running") return await keptMachine({ record, paths });
    const { cpus, ram_mb, assets } = record;
    return { cpus, ram_mb, assets };
  }

  /** Enters the new VMs, so that no other request gets their names and places. Nothing is awaited here. */
  #reserve(
    { record: { name: sourceName, persistent, scratch_gb } }: Vm,
    record: Boot["record"] & Pick<VmRecord, "made_by" | "asked" | "agent" | "devcontainer">,
    names: readonly (string | undefined)[],
  ): Vm[] {
    const { registry, admission } = this.#options;
    const vms: Vm[] = [];
    try {
      for (const given of names) {
        const name = given ?? registry.freeName(sourceName.slice(0, PREFIX_CHARS));
        registry.requireName(name);
        admission.require(record.ram_mb);
        const id = crypto.randomUUID();
        const paths = sessionPaths(this.#home, id);
        const created_at = new Date().toISOString();
        const vm: Vm = {
          record: { id, name, created_at, persistent, scratch_gb, ...record },
          paths,
          process: new VmProcess(paths.socket),
          state: { state: "Booting", boot_stages: [], pid: 0 },
          busy: "fork",
        };
        registry.add(vm);
        vms.push(vm);
      }
    } catch (error) {
      for (const vm of vms) registry.remove(vm);
      throw error;
    }
    return vms;
  }

  async #launch(vms: readonly Vm[], { assets }: Boot): Promise<void> {
    const { launcher, states, sessions } = this.#options;
    for (const vm of vms) sessions.put(vm.record);
    const launches = await Promise.allSettled(vms.map((vm) => launcher.launch(vm, assets, "fork")));
    const failed = launches.find((launch) => launch.status === "rejected");
    if (failed) throw failed.reason;
    for (const vm of vms) {
      vm.busy = undefined;
      states.publish(vm);
    }
  }

  async #remove(vm: Vm): Promise<void> {
    await vm.process.call({ t: "Stop", force: true }).catch(
      ignore("the process has ended, or did not start"),
    );
    await this.#options.states.erase(vm);
  }
}

/**
 * The given name for one VM; numbered for several; nothing if a free one has to be found.
 *
 * @throws {SbxError} `request.invalid`: too long with its number
 */
function namesOf(name: string | undefined, count: number): (string | undefined)[] {
  if (name === undefined || count === 1) return Array(count).fill(name);
  const names = Array.from({ length: count }, (_, at) => `${name}-${at + 1}`);
  if (names.every((each) => VM_NAME.test(each))) return names;
  throw new SbxError("request.invalid", `"${names.at(-1)}" is too long for the name of a VM`, {
    hint: "choose a shorter one: each VM has a number behind it",
  });
}

/** Longest wait for a running source to write out its files, in `s`. */
const SYNC_SECONDS = 120;

function isSnapshot(at: string): boolean {
  return at.startsWith("s");
}

/** Begin of the name of the folder in which forks are made. */
const UNFINISHED = ".fork-";

/** Files of a fork that are not its source's. */
interface ForkContent {
  request: VmRequest;
  contract: Contract;
  /** snapshot that the workspace is of, or a state that comes later */
  at?: string;
}

/**
 * Makes the files of all forks of a VM: in the end they are all there, or none is.
 *
 * @returns time that a running source stood still, in `ms`
 * @throws {SbxError} `vm.fork_failed`, `disk.full`, `process.gone`, `vm.held`
 */
export async function makeForkFiles(
  { sessionsDir }: Pick<Home, "sessionsDir">,
  source: Vm,
  forks: readonly Vm[],
  content: ForkContent,
): Promise<number | undefined> {
  const work = join(sessionsDir, UNFINISHED + crypto.randomUUID());
  try {
    const [first, ...others] = forks.map(({ record }) => vmPaths(join(work, record.id)));
    await Deno.mkdir(work, { mode: 0o700 });
    await Deno.mkdir(first.dir, { mode: 0o700 });
    const { stillMs, ...forked_from } = await takeFiles(source, first, content.at !== undefined);
    // Also one that came meanwhile: the copy has all that the guest did before it.
    requireFree(source);
    if (content.at !== undefined && isSnapshot(content.at)) {
      await putBack(source, first, content.at, join(work, "snapshots"));
    }
    for (const other of others) {
      await Deno.mkdir(other.dir, { mode: 0o700 });
      await copyFiles(first, other);
    }
    const room = new Room(source.paths.repository);
    for (const vm of forks) {
      vm.record = { ...vm.record, forked_from };
      await room.copyTo(new Room(vmPaths(join(work, vm.record.id)).repository));
      await describe(vm.record, vmPaths(join(work, vm.record.id)), content);
    }
    // A request of the guest from before the copy may be found only now.
    requireFree(source);
    for (const { record, paths } of forks) {
      await Deno.mkdir(dirname(paths.ledger), { recursive: true, mode: 0o700 });
      await Deno.rename(join(work, record.id), paths.dir);
    }
    return stillMs;
  } catch (error) {
    for (const { paths } of forks) {
      await Deno.remove(paths.dir, { recursive: true }).catch(ignore("the failure of the fork is reported"));
      await Deno.remove(dirname(paths.ledger)).catch(ignore("the failure of the fork is reported"));
    }
    throw error;
  } finally {
    await Deno.remove(work, { recursive: true }).catch(ignore("removed by the next service"));
  }
}

/** Removes unfinished forks of services that have ended. */
export async function removeUnfinishedForks({ sessionsDir }: Pick<Home, "sessionsDir">): Promise<void> {
  for await (const { name } of Deno.readDir(sessionsDir)) {
    if (!name.startsWith(UNFINISHED)) continue;
    // A process that is still writing there removes it itself.
    await Deno.remove(join(sessionsDir, name), { recursive: true }).catch((error) => log.warn(error));
  }
}

/** Takes a VM's disk, workspace and memory as they are at one moment. @param isCold without the memory */
async function takeFiles(
  source: Vm,
  to: VmPaths,
  isCold: boolean,
): Promise<ForkedFrom & { stillMs?: number }> {
  const session = source.record.id;
  const isRunning = source.state.state === "Running";
  if (isRunning && isCold) {
    const stillMs = await copyStill(source, to);
    return { session, event: await readLast(source.paths.ledger).catch(() => undefined), stillMs };
  }
  if (isRunning) {
    const { still_ms, event } = await source.process.call({ t: "Fork", dir: to.dir });
    return { session, event, stillMs: still_ms };
  }
  await copyFiles(source.paths, to);
  // A VM that never booted has no ledger.
  const event = await readLast(source.paths.ledger).catch(() => undefined);
  return { session, event };
}

/**
 * Copies the files of a running VM, which has written them out and stands still.
 * @returns that time in `ms`
 */
async function copyStill(source: Vm, to: VmPaths): Promise<number> {
  const { exit_code } = await execBuffered(source, {
    command: ["sync"],
    user: "root",
    cwd: "/",
    timeout_secs: SYNC_SECONDS,
  });
  if (exit_code !== 0) {
    throw new SbxError("vm.fork_failed", `"${source.record.name}" did not write out its files: sync failed`, {
      hint: `sbx stop ${source.record.name} first`,
    });
  }
  const began = performance.now();
  await source.process.call({ t: "Pause" });
  try {
    await copyFiles(source.paths, to);
  } finally {
    await source.process.call({ t: "Resume" });
  }
  return performance.now() - began;
}

/** Puts the workspace of a copy back to a snapshot of its source, whose snapshots stay as they are. */
async function putBack({ paths, record }: Vm, to: VmPaths, at: string, snapshots: string): Promise<void> {
  await copySparse(paths.snapshots, snapshots);
  const limits = { auto: Infinity, manual: Infinity };
  const { failed } = await new SnapshotStore(snapshots, to.workspace).restore(at, { kind: "auto", limits });
  if (failed.length === 0) return;
  const [{ why }] = failed;
  throw new SbxError(
    "vm.fork_failed",
    `${count(failed.length, "file")} of the snapshot "${at}" of "${record.name}" cannot be put back: ${why}`,
    { hint: `sbx snapshots list ${record.name} shows the others` },
  );
}

async function copyFiles(from: VmPaths, to: VmPaths): Promise<void> {
  await copySparse(from.workspace, to.workspace);
  if (await exists(from.scratch)) await copySparse(from.scratch, to.scratch);
  if (await isSuspended(from)) await copyLinks(from.suspended, to.suspended);
}

/** Writes a VM's description for the service, which knows the VM once it is in its place. */
async function describe(
  record: VmRecord,
  to: VmPaths,
  { request, contract }: ForkContent,
): Promise<void> {
  const state = await isSuspended(to) ? "Suspended" as const : "Stopped" as const;
  await Promise.all([to.logs, to.snapshots].map((dir) => Deno.mkdir(dir, { mode: 0o700 })));
  await Promise.all([
    writeRequest(to, request),
    writeRecord(to, record),
    writeContract(to, contract),
    writeState(to, { state, boot_stages: [], pid: 0 }),
  ]);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}
