/** The register of one home: a file with one signed entry a line, which only the service writes. */
import { dirname, join } from "node:path";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { log } from "../../base/log/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import { GENESIS } from "../../ledger/mod.ts";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import { REGISTER_TYPE, signText } from "../../release/signing/mod.ts";
import { checkEntries, Entry, entryHash, openEntry, type Removal } from "./entry.ts";

/** File of a home's register. */
export function registerPath({ dir }: { dir: string }): string {
  return join(dir, "record", "sessions.jsonl");
}

/** An entry without the fields that its place gives it. */
type NewEntry =
  | { kind: "begun" | "found"; session_id: string }
  | { kind: "removed"; session_id: string; removal: Removal }
  | { kind: "restarted"; lines: number };

/** The register while the service runs. Entries are on disk before a call settles. */
export class Register {
  readonly #path: string;
  readonly #key: SigningKey;
  readonly #entries: Entry[];
  /** sessions that it names, with true for the removed ones */
  readonly #sessions = new Map<string, boolean>();
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(path: string, key: SigningKey, entries: Entry[]) {
    [this.#path, this.#key, this.#entries] = [path, key, []];
    for (const entry of entries) this.#note(entry);
  }

  /**
   * Opens or begins the register of a home. Lines that are damaged, or that another key signed, are set aside
   * with their file; the entry `restarted` says so.
   *
   * @throws {SbxError} `register.unavailable`
   */
  static async open(home: { dir: string }, key: SigningKey): Promise<Register> {
    const path = registerPath(home);
    try {
      await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
      const text = await ifFound(Deno.readTextFile(path)) ?? "";
      const { good, bad } = await readLines(text, key.publicKey);
      const register = new Register(path, key, good.map(({ entry }) => entry));
      const kept = good.map(({ line }) => `${line}\n`).join("");
      if (bad > 0) {
        const backup = `${path}.damaged-${new Date().toISOString().replaceAll(/[:.]/g, "-")}`;
        await writeAtomic(backup, text);
        // In one step: a register without its mark would pass for one that was never damaged.
        const { whole, line } = await register.#make({ kind: "restarted", lines: bad });
        await writeAtomic(path, kept + line);
        register.#note(whole);
        log.warn(`the register of sessions ${path} was damaged: kept as ${backup}`);
      } else if (kept.length !== text.length) await writeAtomic(path, kept);
      return register;
    } catch (cause) {
      if (cause instanceof SbxError) throw cause;
      throw unavailable(path, cause);
    }
  }

  /** Number and hash of the last entry; `undefined` without entries. */
  get last(): { number: number; hash: string } | undefined {
    const entry = this.#entries.at(-1);
    return entry && { number: entry.number, hash: entryHash(entry) };
  }

  /** Entries behind a number, in order. */
  after(number: number, limit: number): Entry[] {
    return this.#entries.slice(number, number + limit);
  }

  /** The session is in the register, whether removed or not. */
  has(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  isRemoved(sessionId: string): boolean {
    return this.#sessions.get(sessionId) === true;
  }

  /** Announces a session, once, before its first row is written. @throws {SbxError} `register.unavailable` */
  begin(sessionId: string, kind: "begun" | "found" = "begun"): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.has(sessionId)) await this.#append({ kind, session_id: sessionId });
    });
  }

  /**
   * Notes the removal of a session's record, before it goes; a second one adds nothing.
   * @throws as {@linkcode begin}
   */
  remove(sessionId: string, removal: Removal): Promise<void> {
    return this.#inTurn(async () => {
      if (!this.has(sessionId)) await this.#append({ kind: "found", session_id: sessionId });
      if (!this.isRemoved(sessionId)) {
        await this.#append({ kind: "removed", session_id: sessionId, removal });
      }
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#tail.then(work, work);
    this.#tail = done.catch(ignore("the caller has the failure; the next entry follows"));
    return done;
  }

  /** The next entry, and its signed line. */
  async #make(entry: NewEntry): Promise<{ whole: Entry; line: string }> {
    const { number = 0, hash = GENESIS } = this.last ?? {};
    const whole = Entry.parse({
      schema: "sbx.session-register.v1",
      number: number + 1,
      previous: hash,
      at: new Date().toISOString(),
      ...entry,
    });
    return { whole, line: await signText(this.#key, REGISTER_TYPE, canonicalJson(whole)) };
  }

  async #append(entry: NewEntry): Promise<void> {
    const { whole, line } = await this.#make(entry);
    const bytes = new TextEncoder().encode(line);
    try {
      using file = await Deno.open(this.#path, { create: true, write: true, append: true, mode: 0o600 });
      const { size } = await file.stat();
      try {
        await writeAll(file, bytes);
        await file.syncData();
      } catch (error) {
        // A full disk: half a line would make the next one unreadable.
        await file.truncate(size);
        throw error;
      }
    } catch (cause) {
      throw unavailable(this.#path, cause);
    }
    this.#note(whole);
  }

  #note(entry: Entry): void {
    this.#entries.push(entry);
    if (entry.kind !== "restarted") this.#sessions.set(entry.session_id, entry.kind === "removed");
  }
}

function unavailable(path: string, cause: unknown): SbxError {
  return new SbxError("register.unavailable", `the register of sessions ${path} cannot be written`, {
    cause,
    hint: "free some space, or check the permissions of its folder",
  });
}

/**
 * Good lines from the first on, and the number of the others. An unfinished last line was
 * never acknowledged, and is neither.
 */
async function readLines(
  text: string,
  key: PublicKey,
): Promise<{ good: { line: string; entry: Entry }[]; bad: number }> {
  const lines = text.split("\n").slice(0, -1);
  const good: { line: string; entry: Entry }[] = [];
  let hash = GENESIS;
  for (const [at, line] of lines.entries()) {
    const entry = await openEntry(line, key).catch(() => undefined);
    if (entry?.number !== at + 1 || entry.previous !== hash) return { good, bad: lines.length - at };
    good.push({ line, entry });
    hash = entryHash(entry);
  }
  return { good, bad: 0 };
}

/** Reads a register as `sbx sessions verify` does. @returns entries up to the first problem, and problems */
export async function readRegister(
  path: string,
  key: PublicKey,
): Promise<{ entries: Entry[]; problems: string[] }> {
  const text = await ifFound(Deno.readTextFile(path)) ?? "";
  const { good, bad } = await readLines(text, key);
  const entries = good.map(({ entry }) => entry);
  const problems = checkEntries(entries);
  if (bad > 0) {
    problems.push(`line ${good.length + 1} is not an entry that this machine signed there`);
  }
  return { entries, problems };
}
