import { canonicalHost } from "../../base/address/mod.ts";
import { RESOLVED_ADDRESSES_MAX, RESOLVED_NAMES_MAX } from "./limit.ts";
import { plainName } from "./packet.ts";

/**
 * Addresses that a guest received for names. Its connections must match them, or one name could front for another.
 * Clients use addresses beyond their TTL, so only the limits remove entries.
 */
export class ResolvedAddresses {
  /** name → addresses, both oldest first */
  readonly #names = new Map<string, Set<string>>();
  /** address → latest name */
  readonly #addresses = new Map<string, string>();

  constructor(readonly maxNames = RESOLVED_NAMES_MAX, readonly maxAddresses = RESOLVED_ADDRESSES_MAX) {}

  remember(name: string, addresses: readonly string[]): void {
    if (addresses.length === 0) return;
    const key = plainName(name);
    const all = this.#names.get(key) ?? new Set();
    this.#names.delete(key);
    this.#names.set(key, all);
    for (const address of addresses) {
      const plain = canonicalHost(address);
      if (plain === undefined) continue;
      all.delete(plain);
      all.add(plain);
      this.#addresses.set(plain, key);
    }
    for (const address of all) {
      if (all.size <= this.maxAddresses) break;
      this.#forget(key, all, address);
    }
    if (this.#names.size > this.maxNames) {
      const [oldest, expired] = this.#names.entries().next().value!;
      for (const address of expired) this.#forget(oldest, expired, address);
      this.#names.delete(oldest);
    }
  }

  /** True when the guest received `address` for `name`, in any spelling. */
  agrees(name: string, address: string): boolean {
    const plain = canonicalHost(address);
    return plain !== undefined && (this.#names.get(plainName(name))?.has(plain) ?? false);
  }

  /** Latest name for which the guest received `address`. */
  nameOf(address: string): string | undefined {
    return this.#addresses.get(canonicalHost(address) ?? "");
  }

  #forget(name: string, addresses: Set<string>, address: string): void {
    addresses.delete(address);
    if (this.#addresses.get(address) === name) this.#addresses.delete(address);
  }
}
