/** The spare process, which waits with its machine for the next VM. */
import { statfs } from "node:fs/promises";
import { fileStamp } from "../../base/hash/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { type Detached, selfCommand, spawnDetached } from "../../base/spawn/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import { bootFiles } from "../../release/asset/mod.ts";
import { giveMachine, giveSession, NO_SESSION } from "../../session/ipc/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { makeSpareFiles, removeSpareFiles, spareScratchGb } from "./vm_files.ts";
import type { TemplateFor, Templates } from "./templates.ts";
import { maxRamMb } from "./boot.ts";

const MACHINE_SETTING = "vm.templates.spare";
/** Time between a boot and the start of a spare process, in `ms`: the VM's first program has priority. */
const QUIET_MS = 250;
/** Time without a boot after which the spare process ends, in `ms`. */
const IDLE_MS = 10 * 60_000;
/** Least free memory of the host for a spare machine, in sizes of that machine. */
const FREE_MEMORY = 4;
const MIB = 1024 * 1024;
/** Least free space of the disk for a spare machine. */
const FREE_DISK_BYTES = 512 * MIB;

/** The machine of a VM, as the next one may want it. */
export interface SpareFor extends TemplateFor {
  scratch_gb: number;
}

interface Waiting {
  process: Detached;
  /** of the program that it runs */
  stamp: string;
  /** id of the session that its machine is for, and the memory of that machine, in `MiB` */
  machine?: string;
  ramMb?: number;
  /** that session is being made */
  isClaimed?: boolean;
  /** settles when the machine was ordered */
  ordered?: Promise<void>;
  /** settles when it has ended and its machine's folders are removed */
  gone?: Promise<void>;
}

export interface SpareOptions {
  home: Home;
  settings: SettingsStore;
  templates: Templates;
}

/**
 * At most one sbx-process that waits for a VM: a start takes longer to load its code than to begin its
 * machine. If the VM before has a template, it has a machine like that one too. It holds no user data, and
 * ends with this process. A service that starts no VMs has none.
 */
export class SpareProcess {
  readonly #options: SpareOptions;
  #waiting?: Waiting;
  #timer?: number;
  /** machine of the last VM that a person or an agent started */
  #last?: SpareFor;
  #isClosed = false;
  #starting?: Promise<void>;

  constructor(options: SpareOptions) {
    this.#options = options;
  }

  /** Memory of the machine that waits, in `MiB`. */
  get ramMb(): number | undefined {
    return this.#waiting?.ramMb;
  }

  /** Files that its machine needs. */
  get assets(): string[] {
    if (!this.#waiting?.machine || !this.#last) return [];
    return bootFiles(this.#last.assets).map(({ path }) => path);
  }

  /** Reserves the machine that waits. @returns the id of the session that it is for */
  claim(): string | undefined {
    const waiting = this.#waiting;
    if (!waiting?.machine || waiting.isClaimed || !this.#hasMachine) return undefined;
    waiting.isClaimed = true;
    return waiting.machine;
  }

  /** Returns a reservation, if `id` has one. A machine whose folder was removed with its VM ends. */
  async release(id: string): Promise<void> {
    const waiting = this.#waiting;
    if (waiting?.machine !== id) return;
    if (await spareScratchGb(sessionPaths(this.#options.home, id)) === undefined) waiting.process.kill();
    else waiting.isClaimed = false;
  }

  /**
   * Gives the waiting process a session. A machine reserved for another session ends.
   *
   * @returns undefined when none waits, it is reserved for another session, or it runs
   * another program than a new one would
   */
  async take(id: string): Promise<Detached | undefined> {
    const waiting = this.#waiting;
    if (!waiting || waiting.isClaimed && waiting.machine !== id) return undefined;
    clearTimeout(this.#timer);
    this.#waiting = undefined;
    const { process, stamp, machine, ordered } = waiting;
    // From here on its folder is the VM's.
    if (machine === id) waiting.machine = undefined;
    try {
      if (await programStamp() !== stamp) throw new Error("the program was replaced");
      await ordered;
      await giveSession(process.input!, id);
      return process;
    } catch (error) {
      log.debug(`spare process: ${error}`);
      process.kill();
      // Its machine ends with it, and has the disk until then.
      await process.exited;
      return undefined;
    }
  }

  /**
   * Starts one in a moment, after a boot, where a process can take another name and log later: on Linux.
   *
   * @param last machine that was started; absent: an automatic start
   */
  renew(last: SpareFor | undefined): void {
    if (Deno.build.os !== "linux") return;
    // A VM without a disk may take one that exists already; not the other way round.
    if (last) this.#last = { ...last, scratch_gb: last.scratch_gb || this.#last?.scratch_gb || 0 };
    clearTimeout(this.#timer);
    this.#timer = backgroundTimeout(() => {
      this.#starting = this.#start().catch((error) => log.warn(error));
    }, QUIET_MS);
  }

  /** Ends the process, and starts no other. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const waiting = this.#waiting;
    this.#end();
    await Promise.all([waiting?.gone, this.#starting]);
  }

  async #start(): Promise<void> {
    this.#timer = backgroundTimeout(() => this.#end(), IDLE_MS);
    const stamp = await programStamp();
    if (this.#waiting || this.#isClosed) return;
    const { home } = this.#options;
    const process = spawnDetached("process", [NO_SESSION], `${home.logsDir}/spare.log`, { takesInput: true });
    const waiting: Waiting = this.#waiting = { process, stamp };
    waiting.gone = process.exited.then(async () => {
      if (this.#waiting === waiting) this.#waiting = undefined;
      if (waiting.machine) await removeSpareFiles(home, waiting.machine);
    });
    await this.#startMachine(waiting);
  }

  /** Orders a machine like the last one, if that started from a template. */
  async #startMachine(waiting: Waiting): Promise<void> {
    const machine = this.#last;
    const { home, templates } = this.#options;
    if (!machine || !this.#hasMachine || !hasMemoryFor(machine) || !await hasRoom(home)) return;
    const start = await templates.startOf(machine);
    if (start.from !== "template") return;
    const id = crypto.randomUUID();
    const { cpus, ram_mb, scratch_gb, accelerator, assets } = machine;
    await makeSpareFiles(home, id, scratch_gb);
    // It has a session by now, or has ended.
    if (this.#waiting !== waiting) return await removeSpareFiles(home, id);
    Object.assign(waiting, { machine: id, ramMb: ram_mb });
    waiting.ordered = giveMachine(waiting.process.input!, {
      id,
      accelerator,
      template: start.dir,
      cpus,
      ram_mb,
      scratch_gb,
      assets: {
        arch: assets.arch,
        kernel: assets.kernel.path,
        initrd: assets.initrd.path,
        rootfs: assets.rootfs.path,
        layer: assets.layer?.path,
      },
    });
    await waiting.ordered;
  }

  #end(): void {
    this.#waiting?.process.kill();
    this.#waiting = undefined;
  }

  get #hasMachine(): boolean {
    const { settings } = this.#options;
    // Its memory would be no VM's, and beyond the memory of all VMs.
    return settings.inForce(MACHINE_SETTING) !== false && maxRamMb(settings) === undefined;
  }
}

function hasMemoryFor({ ram_mb }: SpareFor): boolean {
  return Deno.systemMemoryInfo().available >= FREE_MEMORY * ram_mb * MIB;
}

/** Its disk is empty, and grows with its VM; on a nearly full disk, the running VMs need all the rest. */
async function hasRoom({ sessionsDir }: Pick<Home, "sessionsDir">): Promise<boolean> {
  const { bavail, bsize } = await statfs(sessionsDir);
  return bavail * bsize >= FREE_DISK_BYTES;
}

/** Stamp of the files that a new process would start from. */
async function programStamp(): Promise<string> {
  const { cmd, args } = selfCommand("process");
  const files = [cmd, ...args.filter((argument) => argument.startsWith("/"))];
  return (await Promise.all(files.map(fileStamp))).join(" ");
}
