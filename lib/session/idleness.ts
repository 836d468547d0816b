/** How long a VM has been unused, by the host's calls, the guest's traffic and its processor time. */
import type { GuestLink } from "../machine/guest/mod.ts";
import type { Machine } from "../machine/vm/mod.ts";
import type { SessionGate } from "./gate/mod.ts";

/**
 * Part of one processor that an idle guest stays under, with a busy host's share of it: 1 to 4 % under
 * emulation for a guest in which nothing runs, 11 % for one with a loop of `sleep 0.1`
 * (docs/design/contracts/14-limits.md §14).
 */
const BUSY_SHARE = 0.05;
/** Shortest time that processor time is compared with, in `ms`: the kernel counts in steps of 10. */
const SPAN_MS = 1000;

/** A session's activity at one moment. */
export interface SessionInUse {
  link: Pick<GuestLink, "isInUse">;
  gate: Pick<SessionGate, "activity" | "asks">;
  machine: Pick<Machine, "cpuMs">;
}

/** Time without use by the host or the guest's own work. Each check covers the time since the last. */
export class Idleness {
  #usedAt: number;
  #looked: { at: number; cpuMs: number } | undefined;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.#usedAt = now();
  }

  /** @returns `ms` */
  async look({ link, gate, machine }: SessionInUse): Promise<number> {
    const cpuMs = await machine.cpuMs();
    const at = this.now();
    const isWorking = this.#isWorking(at, cpuMs);
    const isWaiting = gate.activity.isBusy || gate.asks.pending().length > 0;
    this.#usedAt = isWorking || isWaiting || link.isInUse ? at : Math.max(this.#usedAt, gate.activity.lastAt);
    return at - this.#usedAt;
  }

  #isWorking(at: number, cpuMs: number): boolean {
    const before = this.#looked;
    if (before && at - before.at < SPAN_MS) return false;
    this.#looked = { at, cpuMs };
    return before === undefined || cpuMs - before.cpuMs > (at - before.at) * BUSY_SHARE;
  }
}
