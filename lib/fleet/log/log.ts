/** The log of one store: a file with one signed entry a line, which its receivers and sbx-admin append to. */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { lockWithin } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { Keyring } from "../../credential/mod.ts";
import type { PublicKey, SigningKey } from "../../release/mod.ts";
import {
  ensureSigningKey,
  FLEET_LOG_TYPE,
  openSigned,
  readMachineKey,
  signText,
} from "../../release/signing/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { LogEntry, type NewEntry } from "./entry.ts";
import { Tree } from "./tree.ts";

/** Longest wait for another receiver of the store, in `ms`. */
const LOCK_MS = timeLimit(10_000);

/** Files of a store's log. */
export function logPaths(dir: string) {
  const folder = join(dir, "log");
  return { folder, entries: join(folder, "entries.jsonl"), lock: join(folder, ".lock") };
}

/** State of a log, signed by its store. */
export const LogHead = z.strictObject({
  schema: z.literal("sbx.fleet-log-head.v1"),
  /** number of entries, and root of their tree */
  size: z.int().min(0),
  root: z.string().regex(HEX64),
  at: z.iso.datetime(),
});
export type LogHead = z.infer<typeof LogHead>;

/** A store's answer to a machine that has seen an earlier state. */
export interface LogAnswer {
  size: number;
  root: string;
  /** shows that the earlier state is the beginning of this one; absent: it is not */
  proof?: readonly string[];
  /** envelope of the head, and the store's key; absent: the machine read the log itself */
  signed?: { head: string; key: PublicKey };
}

/** Keys of stores are files: receivers have no session with a keyring. */
const NO_KEYRING: Keyring = { get: () => Promise.resolve(undefined), set: () => Promise.resolve() };

/** Hash of a machine's file. */
export function recordHash(machine: Record<string, unknown>): string {
  return blake3(canonicalJson(machine));
}

/** Logs by folder: a receiver reads each entry once. */
const logs = new Map<string, StoreLog>();

/** A log while a program runs. Other programs may append to it too. */
export class StoreLog {
  readonly #dir: string;
  #tree = new Tree();
  /** machines that it names */
  readonly #machines = new Set<string>();
  /** `bytes` that were read */
  #read = 0;
  #key?: Promise<SigningKey>;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static of(dir: string): StoreLog {
    let log = logs.get(dir);
    if (!log) logs.set(dir, log = new StoreLog(dir));
    return log;
  }

  /**
   * Notes machines that it does not name.
   *
   * @param earlier machines from before the log; asked once, when it begins
   * @throws {SbxError} `fleet.log.damaged`, `fleet.store.unavailable`
   */
  enrolled(
    machine: { machine_id: string },
    earlier: () => Promise<readonly { machine_id: string }[]>,
  ): Promise<void> {
    return this.#write(async () => {
      const entries: NewEntry[] = [];
      const note = (kind: "enrolled" | "found", each: { machine_id: string }) => {
        if (!this.#machines.has(each.machine_id)) {
          entries.push({ kind, machine_id: each.machine_id, record: recordHash({ ...each }) });
        }
      };
      if (this.#tree.size === 0) {
        for (const each of await earlier()) if (each.machine_id !== machine.machine_id) note("found", each);
      }
      note("enrolled", machine);
      return entries;
    });
  }

  /** Appends an entry. @throws {SbxError} as {@linkcode enrolled} */
  append(entry: NewEntry): Promise<void> {
    return this.#write(() => Promise.resolve([entry]));
  }

  /** Answers a machine. @param seen the state that it saw last; size 0: none */
  answer(seen: { size: number; root: string }): Promise<LogAnswer> {
    return this.#inTurn(async () => {
      await this.#sync();
      const { size } = this.#tree;
      const root = this.#tree.root();
      const isPrefix = seen.size === 0 || seen.size <= size && this.#tree.root(seen.size) === seen.root;
      return { size, root, ...(isPrefix && { proof: seen.size === 0 ? [] : this.#tree.proof(seen.size) }) };
    });
  }

  /** As {@linkcode answer}, with the signed head. */
  async signedAnswer(seen: { size: number; root: string }): Promise<LogAnswer> {
    const answer = await this.answer(seen);
    const key = await this.#signingKey();
    const head: LogHead = {
      schema: "sbx.fleet-log-head.v1",
      size: answer.size,
      root: answer.root,
      at: new Date().toISOString(),
    };
    return {
      ...answer,
      signed: { head: await signText(key, FLEET_LOG_TYPE, canonicalJson(head)), key: key.publicKey },
    };
  }

  /** Key with which the store signs. */
  async key(): Promise<SigningKey> {
    await Deno.mkdir(logPaths(this.#dir).folder, { recursive: true, mode: 0o700 });
    return await this.#signingKey();
  }

  #signingKey(): Promise<SigningKey> {
    return this.#key ??= ensureSigningKey({ dir: logPaths(this.#dir).folder }, NO_KEYRING).catch((error) => {
      this.#key = undefined;
      throw error;
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#tail.then(work, work);
    this.#tail = done.catch(() => undefined);
    return done;
  }

  #write(entriesOf: () => Promise<NewEntry[]>): Promise<void> {
    return this.#inTurn(async () => {
      const { folder, entries: path, lock } = logPaths(this.#dir);
      try {
        await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
        using locked = await Deno.open(lock, { create: true, write: true, mode: 0o600 });
        if (!await lockWithin(locked, LOCK_MS)) {
          throw new SbxError("fleet.busy", `another program writes the log of ${this.#dir}`, {
            hint: "try again in a moment",
          });
        }
        await this.#sync();
        const entries = await entriesOf();
        if (entries.length > 0) await this.#append(path, entries);
      } catch (cause) {
        if (cause instanceof SbxError) throw cause;
        throw new SbxError("fleet.store.unavailable", `the log ${path} cannot be written`, {
          cause,
          hint: "free some space, or check the permissions of the folder",
        });
      }
    });
  }

  async #append(path: string, entries: readonly NewEntry[]): Promise<void> {
    const key = await this.#signingKey();
    const at = new Date().toISOString();
    let text = "";
    for (const [index, entry] of entries.entries()) {
      const number = this.#tree.size + index + 1;
      const whole = LogEntry.parse({ schema: "sbx.fleet-log.v1", number, at, ...entry });
      text += await signText(key, FLEET_LOG_TYPE, canonicalJson(whole));
    }
    using file = await Deno.open(path, { create: true, write: true, mode: 0o600 });
    // Half a line of a program that was killed was never acknowledged.
    await file.truncate(this.#read);
    await file.seek(this.#read, Deno.SeekMode.Start);
    try {
      await writeAll(file, new TextEncoder().encode(text));
      await file.syncData();
    } catch (error) {
      await file.truncate(this.#read);
      throw error;
    }
    await this.#sync();
  }

  /** Reads entries that other programs appended. @throws {SbxError} `fleet.log.damaged` */
  async #sync(): Promise<void> {
    const { entries: path } = logPaths(this.#dir);
    using file = await ifFound(Deno.open(path));
    const size = file ? (await file.stat()).size : 0;
    if (size < this.#read) throw damaged(path, "it is shorter than it was");
    if (!file || size === this.#read) return;
    await file.seek(this.#read, Deno.SeekMode.Start);
    const bytes = new Uint8Array(size - this.#read);
    for (let at = 0; at < bytes.length;) {
      const count = await file.read(bytes.subarray(at));
      if (count === null) break;
      at += count;
    }
    const end = bytes.lastIndexOf(10) + 1;
    for (const line of new TextDecoder().decode(bytes.subarray(0, end)).split("\n").slice(0, -1)) {
      const { text, entry } = entryOf(path, line, this.#tree.size + 1);
      this.#tree.push(text);
      if ("record" in entry) this.#machines.add(entry.machine_id);
    }
    this.#read += end;
  }
}

/** Reads a line's entry without its signature, which `fleet verify` checks. */
function entryOf(path: string, line: string, number: number): { text: string; entry: LogEntry } {
  try {
    const { payload } = JSON.parse(line) as { payload: string };
    const text = new TextDecoder().decode(Uint8Array.fromBase64(payload));
    const entry = LogEntry.parse(JSON.parse(text));
    if (entry.number === number) return { text, entry };
  } catch (cause) {
    throw damaged(path, `line ${number} is not an entry`, cause);
  }
  throw damaged(path, `line ${number} is another entry`);
}

function damaged(path: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("fleet.log.damaged", `the log ${path} is damaged: ${problem}`, {
    cause,
    hint: "restore it from a backup that is not older than the last entry; machines detect an older one",
  });
}

/** Key with which a store signs; `undefined`: it has none yet. */
export async function readStoreKey(dir: string): Promise<PublicKey | undefined> {
  return await readMachineKey({ dir: logPaths(dir).folder });
}

/** Reads and verifies a whole log. @returns entries up to the first problem; `key`: absent without a log */
export async function readLog(
  dir: string,
): Promise<{ entries: LogEntry[]; tree: Tree; key?: PublicKey; problems: string[] }> {
  const { entries: path } = logPaths(dir);
  const tree = new Tree();
  const entries: LogEntry[] = [];
  const text = await ifFound(Deno.readTextFile(path));
  if (text === undefined) return { entries, tree, problems: [] };
  const key = await readStoreKey(dir);
  if (!key) return { entries, tree, problems: ["the key of the log is missing"] };
  const lines = text.split("\n");
  for (const [at, line] of lines.slice(0, -1).entries()) {
    const signed = await openText(`${line}\n`, key, "the entry");
    const entry = signed === undefined ? undefined : LogEntry.safeParse(jsonOf(signed)).data;
    if (signed === undefined || entry?.number !== at + 1) {
      const problems = [`line ${at + 1} is not the entry that the store signed there`];
      return { entries, tree, key, problems };
    }
    tree.push(signed);
    entries.push(entry);
  }
  return { entries, tree, key, problems: [] };
}

/**
 * The text in an envelope of a log; `undefined` if it is damaged, of another kind, or not signed by the key.
 */
async function openText(envelope: string, key: PublicKey, what: string): Promise<string | undefined> {
  try {
    const { type, text, key: signer } = await openSigned(new TextEncoder().encode(envelope), [key], what);
    return type === FLEET_LOG_TYPE && signer.trusted ? text : undefined;
  } catch {
    return undefined;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Opens a signed head. @throws {SbxError} `fleet.log.invalid` */
export async function openHead(envelope: string, key: PublicKey): Promise<LogHead> {
  const text = await openText(envelope, key, "the head of the log");
  const head = text === undefined ? undefined : LogHead.safeParse(jsonOf(text)).data;
  if (head) return head;
  throw new SbxError("fleet.log.invalid", "the head of the log is not signed by its store", {
    hint: "an administrator checks the store: sbx-admin fleet verify DIR",
  });
}
