import { SbxError } from "../../base/error/mod.ts";

/** Calls back when a credential is revoked while it is in use. */
export class Revocation {
  readonly #signals: AbortSignal[];
  readonly #callback: () => void;

  /** @throws {SbxError} `credential.denied` when one is revoked already */
  constructor(signals: (AbortSignal | undefined)[], callback: () => void) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    this.#callback = callback;
    if (this.happened) throw withdrawn();
    for (const signal of this.#signals) signal.addEventListener("abort", callback);
  }

  get happened(): boolean {
    return this.#signals.some(({ aborted }) => aborted);
  }

  end(): void {
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#callback);
  }
}

/** What becomes of a request whose credential is revoked. */
export function withdrawn(cause?: unknown): SbxError {
  return new SbxError("credential.denied", "the request was broken off: its credential has been revoked", {
    cause,
    hint: "sbx credentials add gives the VM another one",
  });
}
