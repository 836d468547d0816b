/** Sessions of a home, from their index (`main.db`) or, without it, from their ledgers and VMs. */
import { dirname, join } from "node:path";
import { ifFound, ignore, type SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { diskUse } from "../../base/disk/mod.ts";
import { log } from "../../base/log/mod.ts";
import { count } from "../../base/text/mod.ts";
import type { SessionEntry, SessionIndex } from "../../ledger/read/mod.ts";
import { witnessPath } from "../../ledger/witness/mod.ts";
import type { Register, Removal } from "../../fleet/register/mod.ts";
import { readRecord, readState, sessionPaths, type VmRecord } from "../../session/mod.ts";
import { isAlive } from "../vm/vm.ts";

const DAY_MS = 24 * 3600 * 1000;

async function* readDir(dir: string): AsyncGenerator<Deno.DirEntry> {
  if (await exists(dir)) yield* Deno.readDir(dir);
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

/**
 * The index of all sessions, and the retention of their ledgers. The database is loaded at its first use, and
 * no VM waits for it: an entry that the index misses is found again when the service starts.
 */
export class Sessions {
  readonly #home: Home;
  readonly #path: string;
  #index?: Promise<SessionIndex>;
  #register?: Promise<Register>;
  /** the last change; changes follow each other */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home) {
    this.#home = home;
    this.#path = join(home.dir, "main.db");
  }

  /**
   * Announces a session in the register, before the first row of its ledger. A home whose key or disk fails
   * records on; the register gets the session when it can be written again.
   */
  async begin(id: string): Promise<void> {
    try {
      await (await this.register()).begin(id);
    } catch (error) {
      log.warn(`session ${id} is not in the register: ${(error as Error).message}`);
    }
  }

  /** The register, opened at its first use; sessions of the index that it lacks are added. */
  register(): Promise<Register> {
    const opened = this.#register ??= this.#openRegister();
    opened.catch(() => {
      if (this.#register === opened) this.#register = undefined;
    });
    return opened;
  }

  async #openRegister(): Promise<Register> {
    const [{ Register }, { ensureSigningKey }] = await Promise.all([
      import("../../fleet/register/mod.ts"),
      import("../../release/signing/mod.ts"),
    ]);
    const register = await Register.open(this.#home, await ensureSigningKey(this.#home));
    // A VM that never booted has an empty folder, and no session to announce.
    // Not by `ids`, which waits for the change that may need the register.
    for (const id of await this.#use((index) => index.ids())) {
      const { ledger } = sessionPaths(this.#home, id);
      const hasBegun = await exists(ledger) || !await exists(dirname(ledger));
      if (hasBegun && SESSION_ID.test(id)) await register.begin(id, "found");
    }
    return register;
  }

  /** Adds or replaces the entry of a session. @param endedAt ISO 8601; absent while it runs */
  put(record: VmRecord, endedAt?: string): void {
    const { id, name, profile_id, profile_revision, created_at, made_by, agent } = record;
    const entry = {
      ...{ id, name, profile_id, profile_revision, created_at, ...made_by },
      ...(agent !== undefined && { agent }),
    };
    this.#write((index) => index.put({ ...entry, ...(endedAt && { ended_at: endedAt }) }));
  }

  /** The newest sessions first. */
  async list(limit?: number): Promise<SessionEntry[]> {
    await this.#tail;
    return await this.#use((index) => index.list(limit));
  }

  /** Ids of all sessions of the index, in no order. */
  async ids(): Promise<string[]> {
    await this.#tail;
    return await this.#use((index) => index.ids());
  }

  /** Finds the newest session of a VM with this name, deleted or not. */
  async findByName(name: string): Promise<string | undefined> {
    await this.#tail;
    return await this.#use((index) => index.findByName(name));
  }

  /** Entry of one session. */
  async get(id: string): Promise<SessionEntry | undefined> {
    await this.#tail;
    return await this.#use((index) => index.get(id));
  }

  /**
   * Removes ledgers of sessions that ended more than `days` ago.
   *
   * @param existing sessions whose VM exists: theirs stay
   * @param release false: a ledger is still needed
   * @param holds true: corp keeps it
   * @returns the ids of the removed ones
   */
  prune(
    days: number,
    existing: ReadonlySet<string>,
    { now = Date.now(), release, holds }: {
      now?: number;
      release?: (id: string) => Promise<boolean>;
      holds?: (entry: Pick<SessionEntry, "id"> & Partial<SessionEntry>) => boolean;
    } = {},
  ): Promise<string[]> {
    return this.#write(async (index) => {
      const old = await index.findEndedBefore(new Date(now - days * DAY_MS).toISOString());
      const removable = old.filter((id) => !existing.has(id));
      const removed: string[] = [];
      for (const id of removable) {
        const { ledger } = sessionPaths(this.#home, id);
        if (!await this.isCollected(id)) continue;
        // Before its release: collectors forget where they are in a released record,
        // and would get it again each time.
        if (holds?.(await index.get(id) ?? { id }) === true) continue;
        if (await exists(ledger) && await release?.(id) === false) continue;
        await this.#remove(index, id, { reason: "retention" });
        removed.push(id);
      }
      return removed;
    }) as Promise<string[]>;
  }

  /**
   * Removes the record of a session, which its VM and the fleet no longer need.
   * @throws {SbxError} `register.unavailable`
   */
  async remove(id: string, removal: Omit<Removal, "heads">): Promise<{ events: number; bytes: number }> {
    const removed = this.#tail.then(() => this.#use((index) => this.#remove(index, id, removal)));
    this.#tail = removed.catch(ignore("the caller has the failure; the next change goes on"));
    return await removed;
  }

  async #remove(
    index: SessionIndex,
    id: string,
    removal: Omit<Removal, "heads">,
  ): Promise<{ events: number; bytes: number }> {
    const { ledger } = sessionPaths(this.#home, id);
    const { readHeads } = await import("../../ledger/read/mod.ts");
    const heads = await exists(ledger) ? await readHeads(ledger).catch(() => null) : null;
    const bytes = await diskUse(dirname(ledger));
    // The tombstone comes first: a record that disappears without one was not removed by sbx.
    if (heads !== null || await this.#isAnnounced(id)) {
      await (await this.register()).remove(id, { ...removal, heads });
    }
    // Then the entry: an entry without a ledger means a ledger removed by other hands.
    await index.remove(id);
    await ifFound(Deno.remove(dirname(ledger), { recursive: true }));
    await ifFound(Deno.remove(witnessPath(this.#home, id)));
    return { events: heads?.events ?? 0, bytes };
  }

  async #isAnnounced(id: string): Promise<boolean> {
    return (await this.register()).has(id);
  }

  /** False if the collecting server may lack rows of an ended session. */
  async isCollected(id: string): Promise<boolean> {
    return !await exists(`${sessionPaths(this.#home, id).ledger}.uncollected`);
  }

  /**
   * Number of sessions with rows that the collecting server may lack.
   * @param except sessions that do not count
   */
  async uncollected(except: ReadonlySet<string> = new Set()): Promise<number> {
    let count = 0;
    for await (const { name: id } of readDir(join(this.#home.dir, "ledgers"))) {
      if (!except.has(id) && !await this.isCollected(id)) count++;
    }
    return count;
  }

  /**
   * Sends the uncollected rest of ended sessions (docs/design/contracts/12-ledger.md §12); a failure is
   * logged, and the rest stays for the next call.
   */
  async collect(running: ReadonlySet<string>): Promise<void> {
    for await (const { name: id } of readDir(join(this.#home.dir, "ledgers"))) {
      if (running.has(id) || await this.isCollected(id)) continue;
      const { collectRest } = await import("../../ledger/read/mod.ts");
      await collectRest(sessionPaths(this.#home, id).ledger, id).catch(({ message }) => log.warn(message));
    }
  }

  #write<T>(work: (index: SessionIndex) => Promise<T>): Promise<T | undefined> {
    const done = this.#tail.then(async () => {
      try {
        return await this.#use(work);
      } catch (error) {
        log.warn((error as Error).message);
      }
    });
    this.#tail = done;
    return done;
  }

  /** Works with the index. A damaged one is rebuilt: all of its content exists elsewhere too. */
  async #use<T>(work: (index: SessionIndex) => Promise<T>): Promise<T> {
    const opened = this.#index ?? this.#open(() => this.#openIndex());
    try {
      return await work(await opened);
    } catch (error) {
      if ((error as SbxError).code !== "index.damaged") throw error;
      // Of two failures at once, the second waits for the index that the first rebuilds.
      const current = this.#index === opened ? undefined : this.#index;
      return await work(await (current ?? this.#open(() => this.#rebuild(opened))));
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
    const { SessionIndex } = await import("../../ledger/read/mod.ts");
    await Deno.mkdir(this.#home.dir, { recursive: true });
    return await SessionIndex.open(this.#path);
  }

  /** Sets a damaged index aside and rebuilds it from the ledgers and the VMs that exist. */
  async #rebuild(broken: Promise<SessionIndex>): Promise<SessionIndex> {
    await broken.then((index) => index.close(), () => {});
    const { renameDamagedIndex } = await import("../../ledger/read/mod.ts");
    const backup = await renameDamagedIndex(this.#path);
    const index = await this.#openIndex();
    let entries = 0;
    for await (const entry of scanSessions(this.#home)) {
      await index.put(entry);
      entries++;
    }
    log.warn(
      `the index of sessions ${this.#path} was damaged: rebuilt with ${
        count(entries, "session")
      }, kept as ${backup}`,
    );
    return index;
  }
}

/** Name of a folder that belongs to a session. */
export const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Yields every session that has a ledger or a VM, in no order. */
async function* scanSessions(home: Home): AsyncGenerator<SessionEntry> {
  const ids = new Set<string>();
  for (const dir of [join(home.dir, "ledgers"), home.sessionsDir]) {
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    for (const name of names) if (SESSION_ID.test(name)) ids.add(name);
  }
  for (const id of ids) yield await entryOf(home, id);
}

/** The ledger of a deleted VM has everything but the VM's name. */
async function entryOf(home: Home, id: string): Promise<SessionEntry> {
  const paths = sessionPaths(home, id);
  const record = await readRecord(paths).catch(() => undefined);
  const state = await readState(paths).catch(() => undefined);
  const { mtime } = await Deno.stat(paths.ledger).catch(() => Deno.stat(paths.dir)).catch(() => ({
    mtime: null,
  }));
  const modified = (mtime ?? new Date()).toISOString();
  const ended = record && state && isAlive(state) ? {} : { ended_at: modified };
  if (record) {
    const { name, profile_id, profile_revision, created_at, made_by, agent } = record;
    return {
      ...{ id, name, profile_id, profile_revision, created_at, ...made_by, ...ended },
      ...(agent !== undefined && { agent }),
    };
  }
  const first = await readFirstEvent(paths.ledger);
  return {
    id,
    name: `unknown-${id.slice(0, 8)}`,
    profile_id: first?.profile_id ?? "unknown",
    profile_revision: first?.profile_revision ?? "",
    created_at: first ? new Date(first.timestamp_unix_ms).toISOString() : modified,
    ...ended,
  };
}

async function readFirstEvent(ledger: string) {
  const { readEvents } = await import("../../ledger/read/mod.ts");
  const page = await readEvents(ledger, { limit: 1 }).catch(() => undefined);
  return page?.events[0]?.common;
}
