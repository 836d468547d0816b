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
  #timer?: number;

  constructor(store: Pick<CredentialStore, "endLoans">) {
    this.#store = store;
  }

  /** Removes the ones that are over, and looks again when the next one is. */
  look(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#store.endLoans().then((next) => {
      if (next === undefined || this.#timer !== undefined) return;
      const wait = Math.min(Math.max(next - Date.now(), 0), LOOK_MS);
      this.#timer = backgroundTimeout(() => this.look(), wait);
    }).catch((error) => {
      log.warn("a login that a VM was lent is over, and stays in the store:", error);
    });
  }
}
