import { parseAddress } from "../policy/mod.ts";
import { GIVEN_ADDRESSES_MAX, GIVEN_NAMES_MAX } from "./limit.ts";
import { plainName } from "./packet.ts";

/**
 * Which addresses one guest was given for which names: what it connects to must fit, or it fronts one name with
 * another. Clients keep addresses longer than their TTL says, so nothing is forgotten until there is too much of it.
 */
export class GivenAddresses {
  /** name → addresses, both oldest first */
  readonly #names = new Map<string, Set<string>>();
  /** address → the name it was given for last */
  readonly #addresses = new Map<string, string>();

  constructor(readonly maxNames = GIVEN_NAMES_MAX, readonly maxAddresses = GIVEN_ADDRESSES_MAX) {}

  remember(name: string, addresses: readonly string[]): void {
    if (addresses.length === 0) return;
    const key = plainName(name);
    const known = this.#names.get(key) ?? new Set();
    this.#names.delete(key);
    this.#names.set(key, known);
    for (const address of addresses) {
      const plain = plainAddress(address);
      if (plain === undefined) continue;
      known.delete(plain);
      known.add(plain);
      this.#addresses.set(plain, key);
    }
    for (const address of known) {
      if (known.size <= this.maxAddresses) break;
      this.#forget(key, known, address);
    }
    if (this.#names.size > this.maxNames) {
      const [oldest, theirs] = this.#names.entries().next().value!;
      for (const address of theirs) this.#forget(oldest, theirs, address);
      this.#names.delete(oldest);
    }
  }

  /** Whether the guest was told that `name` is at `address`, in any spelling. */
  agrees(name: string, address: string): boolean {
    const plain = plainAddress(address);
    return plain !== undefined && (this.#names.get(plainName(name))?.has(plain) ?? false);
  }

  /** The name that the guest got `address` for last. */
  nameOf(address: string): string | undefined {
    return this.#addresses.get(plainAddress(address) ?? "");
  }

  #forget(name: string, addresses: Set<string>, address: string): void {
    addresses.delete(address);
    if (this.#addresses.get(address) === name) this.#addresses.delete(address);
  }
}

/** One spelling for each address; IPv4 within IPv6 is the IPv4 address that a connection to it goes to. */
function plainAddress(address: string): string | undefined {
  const bytes = parseAddress(address);
  if (!bytes) return undefined;
  const mapped = bytes.length === 16 && bytes.subarray(0, 10).every((byte) => byte === 0) &&
    bytes[10] === 255 &&
    bytes[11] === 255;
  return (mapped ? bytes.subarray(12) : bytes).toHex();
}
