import { dirname, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import type { KeyPlace } from "./entry.ts";
import { findKeyring, type Keyring } from "./keyring.ts";
import { readPrivate } from "./private_file.ts";

/** AES-256 key as stored in the keyring and in the key file. */
const KEY_HEX = /^[0-9a-f]{64}$/;

/** Key of a store, and its location. */
export interface StoreKey {
  place: KeyPlace;
  key: CryptoKey;
}

/**
 * Creates and finds the key of one store: in the OS keyring, or without one in a file of mode 0600 beside the
 * store.
 */
export class KeyChain {
  readonly #path: string;
  readonly #account: string;
  readonly #keyring?: Keyring;
  #cached?: StoreKey;

  /** @param storePath path of the store's file; each store of a user has its own key */
  constructor(storePath: string, keyring: Keyring | undefined = findKeyring()) {
    this.#path = join(dirname(storePath), "store.key");
    this.#account = `credential-store-${blake3(storePath).slice(0, 16)}`;
    this.#keyring = keyring;
  }

  /**
   * Finds the key a store is sealed with.
   *
   * @throws {SbxError} `credential.key_missing`, `credential.store_insecure`
   */
  async find(place: KeyPlace): Promise<StoreKey> {
    if (this.#cached?.place.id === place.id) return this.#cached;
    const hex = place.in === "keyring" ? await this.#keyring?.get(this.#account) : this.#readFile();
    if (hex === undefined) throw this.#missingError(place, "is missing");
    if (!KEY_HEX.test(hex) || keyId(hex) !== place.id) {
      throw this.#missingError(place, "does not belong to it");
    }
    return this.#cached = await importKey(hex, place);
  }

  /**
   * Creates a key that later processes can find. An existing key, of a store since removed, is used again.
   */
  async make(): Promise<StoreKey> {
    const hex = crypto.getRandomValues(new Uint8Array(32)).toHex();
    if (this.#keyring) {
      const existing = await this.#keyring.get(this.#account);
      if (existing === undefined) await this.#keyring.set(this.#account, hex);
      // A locked or broken keyring accepts a key and does not return it.
      const stored = existing ?? await this.#keyring.get(this.#account);
      if (stored !== undefined && KEY_HEX.test(stored)) return await this.#cache(stored, "keyring");
    }
    const existing = this.#readFile();
    if (existing !== undefined && KEY_HEX.test(existing)) return await this.#cache(existing, "file");
    await writeAtomic(this.#path, `${hex}\n`);
    return await this.#cache(hex, "file");
  }

  async #cache(hex: string, where: KeyPlace["in"]): Promise<StoreKey> {
    return this.#cached = await importKey(hex, { in: where, id: keyId(hex) });
  }

  #readFile(): string | undefined {
    return readPrivate(this.#path, 1024)?.text.trim();
  }

  #missingError(place: KeyPlace, problem: string): SbxError {
    const where = place.in === "keyring" ? "in the OS keyring" : this.#path;
    return new SbxError("credential.key_missing", `the key of the credential store (${where}) ${problem}`, {
      hint: place.in === "keyring"
        ? "unlock the keyring, and run sbx in the desktop session that created the store"
        : "restore the key file, or move the store away and add the credentials again: sbx credentials add",
    });
  }
}

function keyId(hex: string): string {
  return blake3(`sbx.credential.key.v1\0${hex}`).slice(0, 16);
}

async function importKey(hex: string, place: KeyPlace): Promise<StoreKey> {
  const bytes = Uint8Array.fromHex(hex);
  return {
    place,
    key: await crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]),
  };
}
