/**
 * Gives memory of a process that waits back to its machine. V8 collects when memory is asked for: a process
 * that came to rest keeps what its start or its last work has left, about as much again as it needs.
 */
import { backgroundInterval } from "../time/mod.ts";

/**
 * V8's flag for a function that collects. Compiled programs have it (scripts/build.ts);
 * others set it when they need it.
 */
export const COLLECTOR_FLAG = "--expose-gc";

/** Time between two looks, in `ms`. */
const LOOK_MS = 5000;
/**
 * Growth of the memory that is held since the last collection that is worth another one, in `bytes`:
 * it takes 0.2 s of a processor.
 */
const WORTH_BYTES = 8 * 1024 * 1024;
/** Most growth between two looks of a process at rest, in `bytes`. */
const STILL_BYTES = 512 * 1024;

/** Collects all; other flavors keep the pages that they empty. */
type Collector = (options: { type: "major"; flavor: "last-resort" }) => void;
declare const gc: Collector | undefined;

/** The heap of a process, as it is and as it becomes. */
interface Heap {
  /** in `bytes` */
  size(): { used: number; held: number };
  collect(): void | Promise<void>;
}

/** Decides when a process rests, and has something to give back. */
export class RestingHeap {
  readonly #heap: Heap;
  /** held after the last collection; objects in use then trigger no other collection */
  #collected = 0;
  #before = 0;

  constructor(heap: Heap) {
    this.#heap = heap;
  }

  /** Called in regular intervals; collects at most once for each work that ended. */
  async look(): Promise<void> {
    const { used, held } = this.#heap.size();
    const isStill = Math.abs(used - this.#before) <= STILL_BYTES;
    this.#before = used;
    if (!isStill || held - this.#collected < WORTH_BYTES) return;
    await this.#heap.collect();
    const after = this.#heap.size();
    this.#before = after.used;
    this.#collected = after.held;
  }
}

/** Collects this process's heap whenever it has come to rest; does not keep the process alive. */
export function collectAtRest(lookMs = LOOK_MS): void {
  let collector: Promise<Collector | undefined> | undefined;
  const heap = new RestingHeap({
    size: () => {
      const { heapUsed: used, heapTotal: held } = Deno.memoryUsage();
      return { used, held };
    },
    collect: async () => {
      const collect = await (collector ??= findCollector());
      collect?.({ type: "major", flavor: "last-resort" });
    },
  });
  backgroundInterval(() => void heap.look(), lookMs);
}

/** @returns undefined in a Deno that takes no flags while it runs, as 2.7 */
async function findCollector(): Promise<Collector | undefined> {
  if (typeof gc === "function") return gc;
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import("node:v8"),
    import("node:vm"),
  ]);
  // A flag that was set later is seen by contexts that are made after it.
  setFlagsFromString(COLLECTOR_FLAG);
  return runInNewContext("globalThis.gc");
}
