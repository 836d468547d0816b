import { fileStamp } from "../base/hash/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { type Detached, selfCommand, spawnDetached } from "../base/spawn/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import { giveSession, NO_SESSION } from "../ipc/mod.ts";

/** Time between a boot and the start of a spare process, in `ms`: the VM's first program has priority. */
const QUIET_MS = 250;
/** Time without a boot after which the spare process ends, in `ms`. */
const IDLE_MS = 10 * 60_000;

interface Waiting {
  process: Detached;
  /** of the program that it runs */
  stamp: string;
}

/**
 * At most one sbx-process that waits for a VM: a start takes longer to load its code than to begin its machine. It has
 * nobody's data, and ends with this process. A service that starts no VMs has none.
 */
export class SpareProcess {
  readonly #log: string;
  #waiting?: Waiting;
  #timer?: number;

  constructor({ logsDir }: Pick<Home, "logsDir">) {
    this.#log = `${logsDir}/spare.log`;
  }

  /** Gives the waiting process a session. @returns undefined when none waits, or it runs another program than a new one would */
  async take(id: string): Promise<Detached | undefined> {
    clearTimeout(this.#timer);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    if (!waiting) return undefined;
    const { process, stamp } = waiting;
    try {
      if (await programStamp() !== stamp) throw new Error("the program was replaced");
      await giveSession(process.input!, id);
      return process;
    } catch (error) {
      log.debug(`spare process: ${error}`);
      process.kill();
      return undefined;
    }
  }

  /** Starts one in a moment, after a boot. */
  renew(): void {
    clearTimeout(this.#timer);
    this.#timer = backgroundTimeout(() => this.#start().catch((error) => log.warn(error)), QUIET_MS);
  }

  async #start(): Promise<void> {
    this.#timer = backgroundTimeout(() => this.#end(), IDLE_MS);
    const stamp = await programStamp();
    if (this.#waiting) return;
    const process = spawnDetached("process", [NO_SESSION], this.#log, { takesInput: true });
    const waiting = this.#waiting = { process, stamp };
    process.exited.then(() => {
      if (this.#waiting === waiting) this.#waiting = undefined;
    });
  }

  #end(): void {
    this.#waiting?.process.kill();
    this.#waiting = undefined;
  }
}

/** Stamp of the files that a new process would start from. */
async function programStamp(): Promise<string> {
  const { cmd, args } = selfCommand("process");
  const files = [cmd, ...args.filter((argument) => argument.startsWith("/"))];
  return (await Promise.all(files.map(fileStamp))).join(" ");
}
