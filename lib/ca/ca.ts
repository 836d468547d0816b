import { asSbxError } from "../base/error/mod.ts";
import { LeafCache } from "./cache.ts";
import type { CaFiles, CaPair } from "./store.ts";

/** A certificate with the chain that it needs, and its key, both PEM. */
export interface Leaf {
  cert: string;
  key: string;
}

/** Most certificates that are kept ready. */
const LEAVES_MAX = 2048;

/**
 * The certificate authority of this machine. Its key never leaves the host: guests get its certificate, and what it
 * signs is only ever shown to guests. Signing loads a library that takes a tenth of a second, so it is loaded when the
 * first certificate is asked for.
 */
export class Ca {
  /** PEM; what guests trust */
  readonly certificate: string;
  readonly fingerprint: string;
  readonly #pair: CaPair;
  readonly #leaves = new LeafCache<Leaf>(LEAVES_MAX);
  #signer?: Promise<(name: string) => Promise<Leaf>>;

  constructor(readonly files: CaFiles, pair: CaPair) {
    this.#pair = pair;
    this.certificate = pair.certificate;
    this.fingerprint = pair.fingerprint;
  }

  /**
   * The certificate for a name or an address, made when it is first asked for.
   *
   * @throws {SbxError} `ca.invalid` when key and certificate do not belong together
   */
  leaf(name: string): Promise<Leaf> {
    return this.#leaves.get(name, async () => {
      const sign = await (this.#signer ??= this.#load());
      return await sign(name);
    });
  }

  async #load(): Promise<(name: string) => Promise<Leaf>> {
    const { leafSigner } = await import("./sign.ts");
    try {
      return await leafSigner(this.#pair);
    } catch (error) {
      throw asSbxError(error, "reading the certificate authority of this machine");
    }
  }
}
