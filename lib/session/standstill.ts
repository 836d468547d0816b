/** A machine that stands still by itself, because something of it cannot be written, and goes on by itself. */
import { statfs } from "node:fs/promises";
import { SbxError } from "../base/error/mod.ts";
import type { ExecStreams } from "../guest/mod.ts";
import type { MachineInfo } from "../ipc/mod.ts";

/** What helps. */
export const STANDSTILL_HINT =
  "free some space, or raise ledger.max_size_mb (sbx settings): it goes on by itself";

/** How often it is looked for room on a disk that was full. */
const ROOM_RETRY_MS = 1000;
/** Room that a guest is given at the least: it would stop again at once. */
const ROOM_BYTES = 16 * 1024 * 1024;

/** What a standstill needs of its machine. */
export interface Standing {
  name: string;
  /** image of the guest's disk */
  disk: string;
  state(): MachineInfo["state"];
  /** changes what is told of the machine */
  set(change: Partial<MachineInfo>): void;
  pause(): Promise<void>;
  resume(): Promise<void>;
}

/** Pauses one machine as long as its ledger, with `ledger.on_full = "pause"`, or its disk cannot be written. */
export class Standstill {
  readonly #machine: Standing;
  /** why the ledger cannot be written, as long as it cannot */
  #ledger?: { message: string; pause: boolean };
  /** why the guest's disk cannot */
  #disk?: string;
  /** it is paused for that, and not because somebody paused it */
  #still = false;
  /** where the programs that run say things */
  readonly #programs = new Set<ExecStreams>();

  constructor(machine: Standing) {
    this.#machine = machine;
  }

  /** The ledger cannot be written; `pause`: the machine must not go on. */
  async unrecorded({ message }: Error, pause: boolean): Promise<void> {
    this.#ledger = { message, pause };
    this.#machine.set({ last_error: message });
    await this.begin();
  }

  /** The ledger can be written again. */
  async recorded(): Promise<void> {
    this.#ledger = undefined;
    await this.#end();
  }

  /** The machine has stopped for want of room; settles when there is some, and it goes on. */
  async diskFull(): Promise<void> {
    if (this.#disk !== undefined) return;
    const { disk } = this.#machine;
    this.#disk = `no space is left for what its guest writes to ${disk}`;
    this.#machine.set({ last_error: this.#disk });
    await this.begin();
    while (isLive(this.#machine.state()) && !await hasRoom(disk)) {
      await new Promise((resolve) =>
        Deno.unrefTimer(setTimeout(resolve, ROOM_RETRY_MS) as unknown as number)
      );
    }
    this.#disk = undefined;
    await this.#end();
  }

  /** Begins, if there is a reason: for a machine that had to boot first. */
  async begin(): Promise<void> {
    if (this.#reason === undefined || this.#machine.state() !== "Running") return;
    await this.#machine.pause();
    // The reason may have gone meanwhile.
    if (this.#reason === undefined) return await this.#machine.resume();
    this.#still = true;
    this.#machine.set({ state: "Paused", last_error: this.#reason });
    for (const streams of this.#programs) this.#explain(streams);
  }

  /** @throws {SbxError} `vm.paused` as long as it lasts */
  refuse(): void {
    if (this.#reason !== undefined && this.#machine.state() === "Paused") throw this.#error();
  }

  /** Whoever waits for this program hears of a standstill, and of its end. */
  async during<T>(streams: ExecStreams, program: Promise<T>): Promise<T> {
    this.#programs.add(streams);
    if (this.#still) this.#explain(streams);
    return await program.finally(() => this.#programs.delete(streams));
  }

  get #reason(): string | undefined {
    return this.#ledger?.pause ? this.#ledger.message : this.#disk;
  }

  async #end(): Promise<void> {
    if (this.#reason !== undefined || !isLive(this.#machine.state())) return;
    this.#machine.set({ last_error: this.#ledger?.message });
    const still = this.#still;
    this.#still = false;
    if (!still || this.#machine.state() !== "Paused") return;
    await this.#machine.resume();
    this.#machine.set({ state: "Running" });
    for (const streams of this.#programs) say(streams, `"${this.#machine.name}" goes on`);
  }

  #error(): SbxError {
    const hint = STANDSTILL_HINT;
    return new SbxError("vm.paused", `"${this.#machine.name}" is paused: ${this.#reason}`, { hint });
  }

  #explain(streams: ExecStreams): void {
    const { message, hint } = this.#error();
    say(streams, `${message}\n${hint}`);
  }
}

function say(streams: ExecStreams, text: string): void {
  streams.output("stderr", new TextEncoder().encode(`sbx: ${text}\n`).toBase64()).catch(() => {});
}

function isLive(state: MachineInfo["state"]): boolean {
  return state === "Booting" || state === "Running" || state === "Paused";
}

/** Whether the disk that a file is on takes some more. */
async function hasRoom(path: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize >= ROOM_BYTES;
}
