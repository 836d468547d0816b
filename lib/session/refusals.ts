import type { Refused } from "../guest/mod.ts";

/** Destinations a second that get an event each; of more, one event tells how many they were. */
export const REFUSALS_MAX = 32;
/** Milliseconds in which packets to the same destination are one event. */
const WINDOW_MS = 1000;

/** Packets that a guest's kernel refused, as many as are worth an event: a guest may tell of any number. */
export class Refusals {
  readonly #record: (refused: Refused, among: number) => void;
  /** destinations in this window, of which each has its event */
  readonly #known = new Set<string>();
  /** the last one without an event, and how many there are */
  #without?: { last: Refused; count: number };
  #window?: ReturnType<typeof setTimeout>;

  /** @param record makes an event of a packet, which stands for `among` of them; it does not throw */
  constructor(record: (refused: Refused, among: number) => void) {
    this.#record = record;
  }

  add(refused: Refused): void {
    const { protocol, host_ip, port } = refused;
    const destination = `${protocol} ${host_ip} ${port}`;
    if (this.#known.has(destination)) return;
    this.#window ??= setTimeout(() => this.#end(), WINDOW_MS);
    if (this.#known.size >= REFUSALS_MAX) {
      this.#without = { last: refused, count: (this.#without?.count ?? 0) + 1 };
      return;
    }
    this.#known.add(destination);
    this.#record(refused, 1);
  }

  /** What has no event yet gets its one now. */
  close(): void {
    clearTimeout(this.#window);
    this.#end();
  }

  #end(): void {
    const without = this.#without;
    this.#known.clear();
    this.#window = this.#without = undefined;
    if (without) this.#record(without.last, without.count);
  }
}
