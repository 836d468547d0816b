import { CACHE_LIMITS, type CacheLimits, RESOLVED_ADDRESSES_MAX, RESOLVED_NAMES_MAX } from "./limit.ts";
import type { DnsQuestion, DnsRecord, Rcode } from "./packet.ts";
import { canonicalHost, plainHost } from "../../base/address/mod.ts";

/** Answer to one question. */
export interface DnsAnswer {
  rcode: Rcode;
  /** with their remaining TTLs */
  records: DnsRecord[];
}

interface CacheEntry extends DnsAnswer {
  bytes: number;
  /** `s` on the cache's clock */
  stored: number;
  expires: number;
}

/** Answers of resolvers, for as long as they are valid. A full cache drops the least recently used ones. */
export class DnsCache {
  readonly #limits: CacheLimits;
  readonly #now: () => number;
  readonly #entries = new Map<string, CacheEntry>();
  #bytes = 0;

  /** @param now monotonic clock in `ms` */
  constructor(limits: Partial<CacheLimits> = {}, now = () => performance.now()) {
    this.#limits = { ...CACHE_LIMITS, ...limits };
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(question: DnsQuestion): DnsAnswer | undefined {
    const key = keyOf(question);
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    const now = this.#now() / 1000;
    this.#drop(key, entry);
    if (entry.expires <= now) return undefined;
    this.#put(key, entry);
    const age = Math.floor(now - entry.stored);
    const remaining = Math.ceil(entry.expires - now);
    const records = entry.records.map((record) => ({
      ...record,
      ttl: Math.max(1, Math.min(record.ttl - age, remaining)),
    }));
    return { rcode: entry.rcode, records };
  }

  /**
   * Caches an answer for its TTL, within the limits.
   *
   * @param negativeTtl `s` that the SOA gives an answer without records
   * @returns the answer with the TTLs for the guest
   */
  set(question: DnsQuestion, { rcode, records }: DnsAnswer, bytes: number, negativeTtl?: number): DnsAnswer {
    const { minTtl, maxTtl, entries } = this.#limits;
    const ttls = records.map((record) => Math.min(Math.max(record.ttl, minTtl), maxTtl));
    const answer = { rcode, records: records.map((record, i) => ({ ...record, ttl: ttls[i] })) };
    const ttl = ttls.length > 0 && rcode === "NOERROR" ? Math.min(...ttls) : this.#clampNegative(negativeTtl);
    const key = keyOf(question);
    const old = this.#entries.get(key);
    if (old) this.#drop(key, old);
    const stored = this.#now() / 1000;
    if (bytes > this.#limits.bytes || ttl <= 0) return answer;
    this.#put(key, { ...answer, bytes, stored, expires: stored + ttl });
    while (this.#entries.size > entries || this.#bytes > this.#limits.bytes) {
      const [oldest, entry] = this.#entries.entries().next().value!;
      this.#drop(oldest, entry);
    }
    return answer;
  }

  #clampNegative(ttl: number | undefined): number {
    const { minTtl, negativeTtl } = this.#limits;
    return Math.max(Math.min(ttl ?? negativeTtl, negativeTtl), Math.min(minTtl, negativeTtl));
  }

  #put(key: string, entry: CacheEntry): void {
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
  }

  #drop(key: string, entry: CacheEntry): void {
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

function keyOf({ name, type }: DnsQuestion): string {
  return `${type} ${plainHost(name)}`;
}

/**
 * Addresses that a guest received for names. Its connections must match them, or one name could front for
 * another. Clients use addresses beyond their TTL, so only the limits remove entries.
 */
export class ResolvedAddresses {
  /** name → addresses, both oldest first */
  readonly #names = new Map<string, Set<string>>();
  /** address → latest name */
  readonly #addresses = new Map<string, string>();

  constructor(readonly maxNames = RESOLVED_NAMES_MAX, readonly maxAddresses = RESOLVED_ADDRESSES_MAX) {}

  remember(name: string, addresses: readonly string[]): void {
    if (addresses.length === 0) return;
    const key = plainHost(name);
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
    return plain !== undefined && (this.#names.get(plainHost(name))?.has(plain) ?? false);
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
