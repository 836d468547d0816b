import { asSbxError } from "../../base/error/mod.ts";
import type { CaFiles, CaPair, Leaf } from "./sign.ts";

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

/** Cache of pending and settled values. Evicts the least recently used; drops a value that fails. */
class LeafCache<T> {
  readonly #entries = new Map<string, Promise<T>>();

  constructor(readonly max: number) {}

  get(key: string, make: () => Promise<T>): Promise<T> {
    const existing = this.#entries.get(key);
    if (existing) this.#entries.delete(key);
    const value = existing ?? make();
    this.#entries.set(key, value);
    if (!existing) {
      value.catch(() => {
        if (this.#entries.get(key) === value) this.#entries.delete(key);
      });
      if (this.#entries.size > this.max) this.#entries.delete(this.#entries.keys().next().value!);
    }
    return value;
  }
}
