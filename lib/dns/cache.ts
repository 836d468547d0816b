import { CACHE_LIMITS, type CacheLimits } from "./limit.ts";
import { type DnsRecord, plainName, type Question, type Rcode } from "./packet.ts";

/** What is known of one question. */
export interface Known {
  rcode: Rcode;
  /** with the TTLs that are left */
  records: DnsRecord[];
}

interface Entry extends Known {
  bytes: number;
  /** seconds on the cache's clock */
  stored: number;
  expires: number;
}

/** Answers of resolvers, as long as they last: least recently used ones go first when it is full. */
export class DnsCache {
  readonly #limits: CacheLimits;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  /** @param now milliseconds, of any clock that only goes forward */
  constructor(limits: Partial<CacheLimits> = {}, now = () => performance.now()) {
    this.#limits = { ...CACHE_LIMITS, ...limits };
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(question: Question): Known | undefined {
    const key = keyOf(question);
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    const now = this.#now() / 1000;
    this.#drop(key, entry);
    if (entry.expires <= now) return undefined;
    this.#put(key, entry);
    const age = Math.floor(now - entry.stored);
    const left = Math.ceil(entry.expires - now);
    const records = entry.records.map((record) => ({
      ...record,
      ttl: Math.max(1, Math.min(record.ttl - age, left)),
    }));
    return { rcode: entry.rcode, records };
  }

  /**
   * Keeps an answer, at least and at most as long as the limits say; its records come back with the TTLs that a guest
   * gets.
   *
   * @param negativeTtl seconds that its SOA gives an answer without records
   */
  set(question: Question, { rcode, records }: Known, bytes: number, negativeTtl?: number): Known {
    const { minTtl, maxTtl, entries } = this.#limits;
    const ttls = records.map((record) => Math.min(Math.max(record.ttl, minTtl), maxTtl));
    const kept = records.map((record, i) => ({ ...record, ttl: ttls[i] }));
    const known = { rcode, records: kept };
    const ttl = ttls.length > 0 && rcode === "NOERROR" ? Math.min(...ttls) : this.#negative(negativeTtl);
    const key = keyOf(question);
    const old = this.#entries.get(key);
    if (old) this.#drop(key, old);
    const stored = this.#now() / 1000;
    if (bytes > this.#limits.bytes || ttl <= 0) return known;
    this.#put(key, { ...known, bytes, stored, expires: stored + ttl });
    while (this.#entries.size > entries || this.#bytes > this.#limits.bytes) {
      const [oldest, entry] = this.#entries.entries().next().value!;
      this.#drop(oldest, entry);
    }
    return known;
  }

  #negative(ttl: number | undefined): number {
    const { minTtl, negativeTtl } = this.#limits;
    return Math.max(Math.min(ttl ?? negativeTtl, negativeTtl), Math.min(minTtl, negativeTtl));
  }

  #put(key: string, entry: Entry): void {
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
  }

  #drop(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

function keyOf({ name, type }: Question): string {
  return `${type} ${plainName(name)}`;
}
