import { dirname, join } from "node:path";
import type { Home } from "../home/mod.ts";
import type { SessionEntry, SessionIndex } from "../ledger/sessions.ts";
import { sessionPaths, type VmRecord } from "../session/mod.ts";

const DAY_MS = 24 * 3600 * 1000;

async function* readDir(dir: string): AsyncGenerator<Deno.DirEntry> {
  if (await exists(dir)) yield* Deno.readDir(dir);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

/**
 * Which sessions there were, and how long their ledgers stay. The database is loaded when it is first needed, and no
 * VM waits for it: what the index misses is found again when the service starts.
 */
export class Sessions {
  readonly #home: Home;
  #index?: Promise<SessionIndex>;
  /** changes are made one after the other */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home) {
    this.#home = home;
  }

  /** A session has begun, goes on, or has ended. */
  put(record: VmRecord, endedAt?: string): void {
    const { id, name, profile_id, profile_revision, created_at } = record;
    this.#write((index) =>
      index.put({ id, name, profile_id, profile_revision, created_at, ...(endedAt && { ended_at: endedAt }) })
    );
  }

  async list(): Promise<SessionEntry[]> {
    await this.#tail;
    return await (await this.#open()).list();
  }

  /** The newest session of a VM that had this name and may be gone. */
  async named(name: string): Promise<string | undefined> {
    await this.#tail;
    return await (await this.#open()).named(name);
  }

  /**
   * Removes ledgers of sessions that ended more than `days` ago.
   *
   * @param kept sessions whose VM is still there
   */
  prune(days: number, kept: ReadonlySet<string>, now = Date.now()): Promise<string[]> {
    return this.#write(async (index) => {
      const old = await index.endedBefore(new Date(now - days * DAY_MS).toISOString());
      const gone = old.filter((id) => !kept.has(id));
      for (const id of gone) {
        const { ledger } = sessionPaths(this.#home, id);
        if (await exists(`${ledger}.uncollected`)) continue;
        await Deno.remove(dirname(ledger), { recursive: true }).catch((error) => {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        });
        await index.remove(id);
      }
      return gone;
    }) as Promise<string[]>;
  }

  /** Sends what ended sessions have left uncollected (contracts.md §12); what cannot be sent is tried again next time. */
  async collect(running: ReadonlySet<string>): Promise<void> {
    for await (const { name: id } of readDir(join(this.#home.dir, "ledgers"))) {
      const { ledger } = sessionPaths(this.#home, id);
      if (running.has(id) || !await exists(`${ledger}.uncollected`)) continue;
      const { collectRest } = await import("../ledger/collect.ts");
      await collectRest(ledger, id).catch(({ message }) => console.error(new Date().toISOString(), message));
    }
  }

  #write<T>(work: (index: SessionIndex) => Promise<T>): Promise<T | undefined> {
    const done = this.#tail.then(async () => {
      try {
        return await work(await this.#open());
      } catch (error) {
        console.error(new Date().toISOString(), "the index of sessions:", (error as Error).message);
      }
    });
    this.#tail = done;
    return done;
  }

  #open(): Promise<SessionIndex> {
    this.#index ??= import("../ledger/sessions.ts").then(async ({ SessionIndex }) => {
      await Deno.mkdir(this.#home.dir, { recursive: true });
      return await SessionIndex.open(join(this.#home.dir, "main.db"));
    });
    this.#index.catch(() => this.#index = undefined);
    return this.#index;
  }
}
