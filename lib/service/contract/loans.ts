import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { CredentialStore } from "../../credential/mod.ts";

/** Longest wait of one timer, in `ms`: the host may sleep, and its clock may be set. */
const LOOK_MS = 60_000;

/**
 * Removes logins that VMs were lent once their time is over, whatever became of the build that lent them and
 * of its VM (docs/design/contracts/09-credentials.md §9, "Store").
 */
export class Loans {
  readonly #store: Pick<CredentialStore, "endLoans">;
  readonly #lookMs: number;
  #timer?: number;
  #hasFailed = false;

  /** @param lookMs longest wait before the next look, in `ms` */
  constructor(store: Pick<CredentialStore, "endLoans">, lookMs = LOOK_MS) {
    this.#store = store;
    this.#lookMs = lookMs;
  }

  /** Removes the ones that are over, and looks again when the next one is, or after a failure. */
  look(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waitForNext().then((wait) => {
      if (wait === undefined || this.#timer !== undefined) return;
      this.#timer = backgroundTimeout(() => this.look(), Math.min(Math.max(wait, 0), this.#lookMs));
    });
  }

  async #waitForNext(): Promise<number | undefined> {
    try {
      const next = await this.#store.endLoans();
      this.#hasFailed = false;
      return next === undefined ? undefined : next - Date.now();
    } catch (error) {
      // Once: a store that cannot be read fails at each look.
      if (!this.#hasFailed) log.warn("a login that a VM was lent is over, and stays in the store:", error);
      this.#hasFailed = true;
      return this.#lookMs;
    }
  }
}
