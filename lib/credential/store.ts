import { dirname, join } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../base/home/mod.ts";
import { corrupt, ENTRIES_MAX, parseStore, type StoredEntry, type StoreFile } from "./entry.ts";
import { isSecret, SECRET_MAX, SECRET_MIN } from "./form.ts";
import { KeyChain, type StoreKey } from "./key.ts";
import type { Keyring } from "./keyring.ts";
import { readPrivate, stampAt } from "./private_file.ts";
import type { Provider } from "./provider.ts";
import { refOf } from "./ref.ts";
import { seal, unseal } from "./seal.ts";

/** Longest wait for another writer; one takes milliseconds, so this one hangs. */
const LOCK_TIMEOUT_MS = 10_000;
/** Most bytes of the store's file. */
const STORE_MAX = 16 * 1024 * 1024;

/** A secret to be kept. */
export interface NewCredential {
  provider: Provider;
  secret: string;
  label?: string;
  /** of `mcp`: where it may be sent */
  hosts?: string[];
  decoy?: boolean;
  /** the VM that brought it; absent when a person adds it */
  vm?: string;
}

/** The store as it was read, and what changes when it does. */
export interface Snapshot {
  file: StoreFile | undefined;
  stamp: string;
}

/** `SBX_CREDENTIAL_STORE_PATH`, default `$SBX_HOME/credentials/store.json` (contracts.md §1). */
export function storePath(
  home: { dir: string },
  env: { get(name: string): string | undefined } = Deno.env,
): string {
  return env.get("SBX_CREDENTIAL_STORE_PATH") || join(home.dir, "credentials", "store.json");
}

/**
 * The file of credentials (contracts.md §9): mode 0600, secrets sealed one by one, written atomically under a lock, so
 * that several processes may use it at once. What it says of a credential may be read without the key; a revoked one
 * has no secret any more.
 */
export class CredentialStore {
  readonly path: string;
  readonly #keys: KeyChain;
  #tail: Promise<unknown> = Promise.resolve();

  /** @param keyring for a keyring other than the system's own */
  constructor(path: string, keyring?: Keyring) {
    this.path = path;
    this.#keys = new KeyChain(path, keyring);
  }

  /** What changes whenever the file does. */
  stamp(): string {
    return stampAt(this.path);
  }

  /** @throws {SbxError} `credential.store_insecure`, `credential.store_corrupt` */
  read(): Snapshot {
    const found = readPrivate(this.path, STORE_MAX);
    return found
      ? { file: parseStore(found.text, this.path), stamp: found.stamp }
      : { file: undefined, stamp: "" };
  }

  /** Every credential, oldest first; revoked ones included. */
  list(): StoredEntry[] {
    return this.read().file?.entries ?? [];
  }

  /**
   * The secrets of some entries by ref.
   *
   * @throws {SbxError} `credential.key_missing`; `credential.store_corrupt` when one does not open
   */
  async open(file: StoreFile, entries: StoredEntry[]): Promise<Map<string, string>> {
    const secrets = new Map<string, string>();
    if (entries.length === 0) return secrets;
    const { key } = await this.#keys.find(file.key);
    for (const entry of entries) {
      const secret = await unseal(key, entry);
      if (secret === undefined) throw corrupt(this.path, `was tampered with (${entry.ref})`);
      secrets.set(entry.ref, secret);
    }
    return secrets;
  }

  /**
   * Keeps secrets. One that is there already is the same credential, now with what is new of it; one that was revoked
   * comes back when a person adds it, and only then.
   *
   * @throws {SbxError} `credential.invalid`, `credential.limit`, `credential.busy`, and what reading throws
   */
  async add(credentials: readonly NewCredential[]): Promise<StoredEntry[]> {
    for (const { secret } of credentials) checkSecret(secret);
    return await this.#change(async (entries, key) => {
      const added: StoredEntry[] = [];
      for (const credential of credentials) {
        const ref = refOf(credential.provider, credential.secret);
        const before = entries.get(ref);
        if (before?.revoked_at !== undefined && credential.vm !== undefined) continue;
        const entry = mergedEntry(ref, credential, before);
        added.push(entry);
        entries.set(ref, await seal(await key(), entry, credential.secret));
      }
      return added;
    });
  }

  /** Takes a credential's secret away for good. @throws {SbxError} `credential.not_found` */
  async revoke(ref: string): Promise<StoredEntry> {
    const [revoked] = await this.#change((entries) => {
      const entry = entries.get(ref);
      if (!entry) {
        throw new SbxError("credential.not_found", `the store has no ${ref}`, {
          hint: "sbx credentials list shows those that it has",
        });
      }
      const { sealed: _, ...rest } = entry;
      const tombstone = { ...rest, revoked_at: entry.revoked_at ?? new Date().toISOString() };
      entries.set(ref, tombstone);
      return [tombstone];
    });
    return revoked;
  }

  /**
   * Reads, changes and writes while nobody else does; one after the other, so that only one waits for the kernel. The
   * key is looked for when it is needed: a credential can be revoked without it.
   */
  #change<T>(
    change: (entries: Map<string, StoredEntry>, key: () => Promise<CryptoKey>) => Promise<T> | T,
  ): Promise<T> {
    const turn = this.#tail.then(async () => {
      try {
        await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
        using lock = await Deno.open(`${this.path}.lock`, { create: true, write: true, mode: 0o600 });
        if (!await lockWithin(lock, LOCK_TIMEOUT_MS)) throw busy(this.path);
        const { file } = this.read();
        let made: StoreKey | undefined;
        const key = async () => (made ??= await (file ? this.#keys.find(file.key) : this.#keys.make())).key;
        const entries = new Map((file?.entries ?? []).map((entry) => [entry.ref, entry]));
        const result = await change(entries, key);
        const place = file?.key ?? made?.place;
        const kept = withinLimit([...entries.values()]);
        await writeAtomic(
          this.path,
          JSON.stringify({ version: 1, key: place, entries: kept }, null, 1) + "\n",
        );
        return result;
      } catch (error) {
        throw asSbxError(error, `changing the credential store ${this.path}`);
      }
    });
    this.#tail = turn.catch(() => {});
    return turn;
  }
}

function checkSecret(secret: string): void {
  if (isSecret(secret)) return;
  throw new SbxError(
    "credential.invalid",
    `a secret is ${SECRET_MIN} to ${SECRET_MAX} visible ASCII characters without spaces; this one is not`,
    { hint: "give the key alone, without quotes, name or line ends inside" },
  );
}

function mergedEntry(ref: string, credential: NewCredential, before?: StoredEntry): StoredEntry {
  const { provider, label, hosts, decoy, vm } = credential;
  const alive = before?.revoked_at === undefined ? before : undefined;
  const entry: StoredEntry = {
    ref,
    provider,
    created_at: alive?.created_at ?? new Date().toISOString(),
    source: vm === undefined || alive?.source === "added" ? "added" : "captured",
  };
  const texts = {
    hosts: union(alive?.hosts, hosts),
    // Who brought it matters only until a person says that it may be used.
    vms: entry.source === "captured" ? union(alive?.vms, vm === undefined ? [] : [vm]) : [],
  };
  if (label ?? alive?.label) entry.label = label ?? alive?.label;
  if (texts.hosts.length) entry.hosts = texts.hosts;
  if (texts.vms.length) entry.vms = texts.vms;
  // A guest that brings a decoy's secret does not make it an ordinary one.
  if (vm === undefined ? decoy : alive?.decoy) entry.decoy = true;
  return entry;
}

/** Most hosts or VMs that one credential remembers; the latest stay. */
const LIST_KEPT = 32;

function union(a: string[] = [], b: string[] = []): string[] {
  return [...new Set([...a, ...b])].slice(-LIST_KEPT);
}

/**
 * What fits into the store: those that were revoked make room first, then the oldest that guests brought, so that
 * no guest can keep a person from adding one.
 *
 * @throws {SbxError} `credential.limit`
 */
function withinLimit(entries: StoredEntry[]): StoredEntry[] {
  let kept = entries;
  const mayGo = [
    (entry: StoredEntry) => entry.revoked_at !== undefined,
    (entry: StoredEntry) => entry.source === "captured",
  ];
  for (const goes of mayGo) {
    let over = kept.length - ENTRIES_MAX;
    kept = kept.filter((entry) => !goes(entry) || over-- <= 0);
  }
  if (kept.length <= ENTRIES_MAX) return kept;
  throw new SbxError("credential.limit", `the store holds its ${ENTRIES_MAX} credentials already`, {
    hint: "sbx credentials revoke REF takes one away",
  });
}

function busy(path: string): SbxError {
  return new SbxError("credential.busy", `another program keeps ${path} locked`, {
    hint: "close other sbx programs and try again",
  });
}
