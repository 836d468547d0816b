import { SbxError } from "../../base/error/mod.ts";

/** Calls back when a credential in use is revoked. */
export class Revocation {
  readonly #signals: AbortSignal[];
  readonly #callback: () => void;

  /** @throws {SbxError} `credential.denied` when a credential is revoked already */
  constructor(signals: (AbortSignal | undefined)[], callback: () => void) {
    this.#signals = signals.filter((signal) => signal !== undefined);
    this.#callback = callback;
    if (this.happened) throw revokedError();
    for (const signal of this.#signals) signal.addEventListener("abort", callback);
  }

  get happened(): boolean {
    return this.#signals.some(({ aborted }) => aborted);
  }

  end(): void {
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#callback);
  }
}

/** Error of a request whose credential was revoked. */
export function revokedError(cause?: unknown): SbxError {
  return new SbxError("credential.denied", "the request was ended because its credential was revoked", {
    cause,
    hint: "add another credential for the VM: sbx credentials add PROVIDER",
  });
}
