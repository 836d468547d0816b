import type { PacketRefusal } from "../machine/guest/mod.ts";

/** Most destinations per second with an event each; one more event stands for the rest. */
export const REFUSALS_MAX = 32;
/** `ms` in which packets to the same destination are one event. */
const WINDOW_MS = 1000;

/** Folds the packets that a guest's kernel refused into a bounded number of events. */
export class Refusals {
  readonly #record: (refused: PacketRefusal, among: number) => void;
  /** destinations with an event in this window */
  readonly #recorded = new Set<string>();
  /** the last packet without an event, and how many there are */
  #unrecorded?: { last: PacketRefusal; count: number };
  #window?: ReturnType<typeof setTimeout>;

  /** @param record makes the event of a packet that stands for `count` of them; never throws */
  constructor(record: (refused: PacketRefusal, among: number) => void) {
    this.#record = record;
  }

  add(refused: PacketRefusal): void {
    const { protocol, host_ip, port } = refused;
    const destination = `${protocol} ${host_ip} ${port}`;
    if (this.#recorded.has(destination)) return;
    this.#window ??= setTimeout(() => this.#end(), WINDOW_MS);
    if (this.#recorded.size >= REFUSALS_MAX) {
      this.#unrecorded = { last: refused, count: (this.#unrecorded?.count ?? 0) + 1 };
      return;
    }
    this.#recorded.add(destination);
    this.#record(refused, 1);
  }

  /** Records the packets that have no event yet. */
  close(): void {
    clearTimeout(this.#window);
    this.#end();
  }

  #end(): void {
    const unrecorded = this.#unrecorded;
    this.#recorded.clear();
    this.#window = this.#unrecorded = undefined;
    if (unrecorded) this.#record(unrecorded.last, unrecorded.count);
  }
}
