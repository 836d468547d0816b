import { dirname, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import type { KeyPlace } from "./entry.ts";
import { findKeyring, type Keyring } from "./keyring.ts";
import { readPrivate } from "./private_file.ts";

/** An AES-256 key as the keyring and the key's file hold it. */
const KEY_HEX = /^[0-9a-f]{64}$/;

/** The key of a store, and where it is kept. */
export interface StoreKey {
  place: KeyPlace;
  key: CryptoKey;
}

/** Makes and finds the key of one store: in the OS keyring where there is one, else in a file of mode 0600 beside it. */
export class KeyChain {
  readonly #path: string;
  readonly #account: string;
  readonly #keyring?: Keyring;
  #known?: StoreKey;

  /** @param storePath the store's file; two stores of one user have two keys */
  constructor(storePath: string, keyring: Keyring | undefined = findKeyring()) {
    this.#path = join(dirname(storePath), "store.key");
    this.#account = `credential-store-${blake3(storePath).slice(0, 16)}`;
    this.#keyring = keyring;
  }

  /**
   * The key that a store says it is sealed with.
   *
   * @throws {SbxError} `credential.key_missing`, `credential.store_insecure`
   */
  async find(place: KeyPlace): Promise<StoreKey> {
    if (this.#known?.place.id === place.id) return this.#known;
    const hex = place.in === "keyring" ? await this.#keyring?.get(this.#account) : this.#readFile();
    if (hex === undefined) throw this.#missing(place, "is not there");
    if (!KEY_HEX.test(hex) || keyId(hex) !== place.id) throw this.#missing(place, "is another one");
    return this.#known = await imported(hex, place);
  }

  /** A new key, kept where a later process finds it. One that is there already, of a store that is gone, is used again. */
  async make(): Promise<StoreKey> {
    const hex = crypto.getRandomValues(new Uint8Array(32)).toHex();
    if (this.#keyring) {
      const there = await this.#keyring.get(this.#account);
      if (there === undefined) await this.#keyring.set(this.#account, hex);
      // A keyring that is locked or broken takes a key and does not give it back.
      const kept = there ?? await this.#keyring.get(this.#account);
      if (kept !== undefined && KEY_HEX.test(kept)) return await this.#keep(kept, "keyring");
    }
    const there = this.#readFile();
    if (there !== undefined && KEY_HEX.test(there)) return await this.#keep(there, "file");
    await writeAtomic(this.#path, `${hex}\n`);
    return await this.#keep(hex, "file");
  }

  async #keep(hex: string, where: KeyPlace["in"]): Promise<StoreKey> {
    return this.#known = await imported(hex, { in: where, id: keyId(hex) });
  }

  #readFile(): string | undefined {
    return readPrivate(this.#path, 1024)?.text.trim();
  }

  #missing(place: KeyPlace, what: string): SbxError {
    const where = place.in === "keyring" ? "in the OS keyring" : this.#path;
    return new SbxError("credential.key_missing", `the key of the credential store (${where}) ${what}`, {
      hint: place.in === "keyring"
        ? "unlock the keyring, and run sbx in the session that made the store"
        : "restore the key's file, or move the store away and add the credentials again: sbx credentials add",
    });
  }
}

function keyId(hex: string): string {
  return blake3(`sbx.credential.key.v1\0${hex}`).slice(0, 16);
}

async function imported(hex: string, place: KeyPlace): Promise<StoreKey> {
  const bytes = Uint8Array.fromHex(hex);
  return {
    place,
    key: await crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]),
  };
}
