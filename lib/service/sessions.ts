import { dirname, join } from "node:path";
import type { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import type { SessionEntry, SessionIndex } from "../ledger/sessions.ts";
import { log } from "../base/log/mod.ts";
import { sessionPaths, type VmRecord } from "../session/mod.ts";
import { knownSessions } from "./known.ts";

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
  readonly #path: string;
  #index?: Promise<SessionIndex>;
  /** changes are made one after the other */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home) {
    this.#home = home;
    this.#path = join(home.dir, "main.db");
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
    return await this.#use((index) => index.list());
  }

  /** The newest session of a VM that had this name and may be gone. */
  async named(name: string): Promise<string | undefined> {
    await this.#tail;
    return await this.#use((index) => index.named(name));
  }

  /** What is known of one session. */
  async get(id: string): Promise<SessionEntry | undefined> {
    await this.#tail;
    return await this.#use((index) => index.get(id));
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
      await collectRest(ledger, id).catch(({ message }) => log(message));
    }
  }

  #write<T>(work: (index: SessionIndex) => Promise<T>): Promise<T | undefined> {
    const done = this.#tail.then(async () => {
      try {
        return await this.#use(work);
      } catch (error) {
        log((error as Error).message);
      }
    });
    this.#tail = done;
    return done;
  }

  /** Works with the index. One that is damaged is made anew: it says nothing that is not written elsewhere too. */
  async #use<T>(work: (index: SessionIndex) => Promise<T>): Promise<T> {
    const opened = this.#index ?? this.#open(() => this.#openIndex());
    try {
      return await work(await opened);
    } catch (error) {
      if ((error as SbxError).code !== "index.damaged") throw error;
      // Whoever comes second finds the one that the first is making.
      const current = this.#index === opened ? undefined : this.#index;
      return await work(await (current ?? this.#open(() => this.#mend(opened))));
    }
  }

  #open(make: () => Promise<SessionIndex>): Promise<SessionIndex> {
    const opened = make();
    opened.catch(() => {
      if (this.#index === opened) this.#index = undefined;
    });
    return this.#index = opened;
  }

  async #openIndex(): Promise<SessionIndex> {
    const { SessionIndex } = await import("../ledger/sessions.ts");
    await Deno.mkdir(this.#home.dir, { recursive: true });
    return await SessionIndex.open(this.#path);
  }

  /** Sets a damaged index aside and makes another of the ledgers and the VMs that are there. */
  async #mend(broken: Promise<SessionIndex>): Promise<SessionIndex> {
    await broken.then((index) => index.close(), () => {});
    const { setAside } = await import("../ledger/sessions.ts");
    const kept = await setAside(this.#path);
    const index = await this.#openIndex();
    let count = 0;
    for await (const entry of knownSessions(this.#home)) {
      await index.put(entry);
      count++;
    }
    log(
      `the index of sessions ${this.#path} was damaged: it is kept as ${kept}, and is made anew of ${count} sessions`,
    );
    return index;
  }
}
