/** Matches of detections in sessions whose VM does not run: counted from their ledgers. */
import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { RuleCounter } from "../../detection/mod.ts";
import { countFindings } from "../../ledger/read/mod.ts";

/** Counts that were read, kept while the ledger's file stays as it is. */
export class PastMatches {
  readonly #dir: string;
  readonly #known = new Map<string, { stamp: string; counters: RuleCounter[] }>();

  constructor({ dir }: Pick<Home, "dir">) {
    this.#dir = join(dir, "ledgers");
  }

  /** Counters of every session but these. */
  async counters(except: ReadonlySet<string>): Promise<RuleCounter[]> {
    const names = await Array.fromAsync(Deno.readDir(this.#dir), ({ name }) => name).catch(
      (): string[] => [],
    );
    const present = new Set(names);
    for (const name of this.#known.keys()) if (!present.has(name)) this.#known.delete(name);
    const all: RuleCounter[] = [];
    for (const name of names) if (!except.has(name)) all.push(...await this.#countersOf(name));
    return all;
  }

  async #countersOf(session: string): Promise<RuleCounter[]> {
    const path = join(this.#dir, session, "session.db");
    const file = await Deno.stat(path).catch(() => undefined);
    if (!file) return [];
    const stamp = `${file.mtime?.getTime()} ${file.size}`;
    const known = this.#known.get(session);
    if (known?.stamp === stamp) return known.counters;
    const counters = await countFindings(path).catch((error) => {
      log.warn(`counting the findings of session ${session}:`, (error as Error).message);
      return [];
    });
    this.#known.set(session, { stamp, counters });
    return counters;
  }
}
