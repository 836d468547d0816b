import { asSbxError } from "../../base/error/mod.ts";
import { LeafCache } from "./cache.ts";
import type { CaFiles, CaPair } from "./store.ts";

/** Certificate with its chain, and its key, both PEM. */
export interface Leaf {
  cert: string;
  key: string;
}

/** Most certificates in the cache. */
const LEAVES_MAX = 2048;

/**
 * Certificate authority of this machine. Its key never leaves the host: guests get its certificate, and only
 * guests see the certificates it signs. The signing library takes a tenth of a second to load, so it is
 * loaded for the first certificate.
 */
export class Ca {
  /** PEM, trusted by guests */
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
   * Certificate for a name or address, signed on first use.
   *
   * @throws {SbxError} `ca.invalid`: the key does not match the certificate
   */
  leaf(name: string): Promise<Leaf> {
    return this.#leaves.get(name, async () => {
      const sign = await (this.#signer ??= this.#load());
      return await sign(name);
    });
  }

  async #load(): Promise<(name: string) => Promise<Leaf>> {
    const { createLeafSigner } = await import("./sign.ts");
    try {
      return await createLeafSigner(this.#pair);
    } catch (error) {
      throw asSbxError(error, "loading this machine's certificate authority");
    }
  }
}
