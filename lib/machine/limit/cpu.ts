/**
 * Share of a machine of its host's processors: the machine's process stands still once it has had its share.
 */
import { ignore } from "../../base/error/mod.ts";
import { backgroundDelay } from "../../base/time/mod.ts";

/** `ms` between looks; the kernel counts processor time in steps of 10. */
const LOOK_MS = 20;
/** The same while a machine has used more than a break makes up for: many processors use much in a moment. */
const SHORT_LOOK_MS = 1;
/** Share that an idle machine saves up, in `ms` of it. */
const SAVED_MS = 200;
/**
 * Longest time that a machine stands still without a break, in `ms`: its guest answers its host in between.
 */
const STILL_MAX_MS = 400;

/** The machine that is limited. */
export interface LimitedMachine {
  cpuMs(): Promise<number>;
  stop(): void;
  /** lets it run, unless something else holds it */
  go(): void;
  /** called when it has used up its share */
  onReached(): void;
  /** nothing holds it back for now: its guest works within a time limit */
  isExempt?(): boolean;
  readonly isOver: boolean;
}

/** Keeps a machine at a share of one processor until its end. */
export async function limitCpu(machine: LimitedMachine, percent: number): Promise<void> {
  let share: CpuShare | undefined;
  while (!machine.isOver) {
    await backgroundDelay(share?.runMs ?? LOOK_MS);
    const used = await machine.cpuMs().catch(ignore("it has ended, or this process has no file left"));
    if (used === undefined) continue;
    if (machine.isExempt?.()) {
      share = undefined;
      continue;
    }
    share ??= new CpuShare(percent, performance.now(), used);
    const stillMs = share.look(performance.now(), used);
    if (stillMs === 0) continue;
    machine.onReached();
    machine.stop();
    await backgroundDelay(stillMs);
    if (!machine.isOver) machine.go();
  }
}

/** The account of a share. */
export class CpuShare {
  readonly #part: number;
  #at: number;
  #used: number;
  /** processor time that it may still use, in `ms`; negative: used too much */
  #left = 0;
  /** `ms` for which the machine may run until the next look */
  runMs = LOOK_MS;

  /** @param now @param used processor time so far, both in `ms` */
  constructor(percent: number, now: number, used: number) {
    this.#part = percent / 100;
    this.#at = now;
    this.#used = used;
  }

  /** @returns `ms` for which the machine has to stand still */
  look(now: number, used: number): number {
    const gained = (now - this.#at) * this.#part;
    this.#left = Math.min(SAVED_MS * this.#part, this.#left + gained - (used - this.#used));
    this.#at = now;
    this.#used = used;
    const dueMs = Math.max(0, -this.#left / this.#part);
    this.runMs = dueMs > STILL_MAX_MS ? SHORT_LOOK_MS : LOOK_MS;
    return Math.min(STILL_MAX_MS, dueMs);
  }
}
