import { CACHE_LIMITS, type CacheLimits } from "./limit.ts";
import { type DnsQuestion, type DnsRecord, plainName, type Rcode } from "./packet.ts";

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
  return `${type} ${plainName(name)}`;
}
