/**
 * Credentials on disk: one encrypted file, written by one process at a time
 * (docs/design/contracts/09-credentials.md §9).
 */
import { dirname, join } from "node:path";
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import { canonicalJson } from "../base/json/mod.ts";
import { lockWithin, writeAtomic } from "../base/home/mod.ts";
import {
  corruptError,
  type DatabaseTerms,
  ENTRIES_MAX,
  isForVms,
  isOver,
  isSamePlace,
  type LoanTerms,
  loginEntry,
  type LoginPlace,
  type NewLoginSecret,
  type OfferedLogin,
  parseStore,
  seal,
  type SecretOrigin,
  type SshServer,
  type SshTerms,
  type StoredEntry,
  type StoreFile,
  unseal,
} from "./entry.ts";
import { isSecret, SECRET_MAX, SECRET_MIN } from "./form.ts";
import { refOf } from "./ref.ts";
import { KeyChain, type Keyring, readPrivate, stampAt, type StoreKey } from "./key.ts";
import type { CustomProvider, Provider } from "./provider.ts";
import { isClientToken } from "./token.ts";
import type { SigningTerms } from "../sign/mod.ts";

/** Longest wait for another writer, in `ms`; a write takes a few, so a longer one hangs. */
const LOCK_TIMEOUT_MS = 10_000;
/** Longest store file, in `bytes`. */
const STORE_MAX = 16 * 1024 * 1024;

/** Secret to add to the store. */
export interface NewCredential {
  provider: Provider;
  secret: string;
  label?: string;
  /** destinations of an `mcp` credential */
  hosts?: string[];
  /** of a provider that no home knows by itself */
  custom?: CustomProvider;
  /** `secret` is a random text then */
  origin?: SecretOrigin;
  decoy?: boolean;
  /** of a database's password */
  database?: DatabaseTerms;
  /** of an SSH key; its servers are added to the ones it has */
  ssh?: SshTerms;
  /** of a key that signs commits */
  signing?: SigningTerms;
  /** of a token that renews a login which a guest made */
  offer?: OfferedLogin;
  /** VM it was captured from; absent when a person adds it */
  vm?: string;
  /** id of the VM that alone may use it, of a credential that a person adds */
  only?: string;
  /** with `only`: it ends by itself */
  loan?: LoanTerms;
  /** with `loan`: only one that is there has its time again */
  renews?: boolean;
}

/** Content of the store, and the stamp of its file. */
export interface Snapshot {
  file: StoreFile | undefined;
  stamp: string;
}

/**
 * Path of the store: `SBX_CREDENTIAL_STORE_PATH`, default `$SBX_HOME/credentials/store.json`
 * (docs/design/contracts/01-homes.md §1).
 */
export function storePath(
  home: { dir: string },
  env: { get(name: string): string | undefined } = Deno.env,
): string {
  return env.get("SBX_CREDENTIAL_STORE_PATH") || join(home.dir, "credentials", "store.json");
}

/**
 * Credential store file (docs/design/contracts/09-credentials.md §9): mode 0600, each secret sealed
 * separately, written atomically under a lock so that several processes can use it. Everything but the
 * secrets can be read without the key; a revoked credential has no secret.
 */
export class CredentialStore {
  readonly path: string;
  readonly #keys: KeyChain;
  #tail: Promise<unknown> = Promise.resolve();

  /** @param keyring replacement for the system's keyring */
  constructor(path: string, keyring?: Keyring) {
    this.path = path;
    this.#keys = new KeyChain(path, keyring);
  }

  /** Stamp that changes whenever the file does. */
  stamp(): string {
    return stampAt(this.path);
  }

  /** @throws {SbxError} `credential.store_insecure`, `credential.store_corrupt` */
  read(): Snapshot {
    const content = readPrivate(this.path, STORE_MAX);
    return content
      ? { file: parseStore(content.text, this.path), stamp: content.stamp }
      : { file: undefined, stamp: "" };
  }

  /** Every credential, oldest first, including revoked ones. */
  list(): StoredEntry[] {
    return this.read().file?.entries ?? [];
  }

  /**
   * Opens the secrets of some entries, by ref.
   *
   * @throws {SbxError} `credential.key_missing`; `credential.store_corrupt`: a secret does not open
   */
  async open(file: StoreFile, entries: StoredEntry[]): Promise<Map<string, string>> {
    const secrets = new Map<string, string>();
    if (entries.length === 0) return secrets;
    const { key } = await this.#keys.find(file.key);
    for (const entry of entries) {
      const secret = await unseal(key, entry);
      if (secret === undefined) throw corruptError(this.path, `was tampered with (${entry.ref})`);
      secrets.set(entry.ref, secret);
    }
    return secrets;
  }

  /**
   * Adds secrets. A secret already in the store is merged into its credential; a revoked one comes back only
   * when a person adds it.
   *
   * @throws {SbxError} `credential.invalid`, `credential.limit`, `credential.busy`, and the errors of
   * {@linkcode read}; `credential.not_found`: a loan to renew was revoked, or is over
   */
  async add(credentials: readonly NewCredential[]): Promise<StoredEntry[]> {
    for (const { secret } of credentials) checkSecret(secret);
    return await this.#change(async (entries, key) => {
      const added: StoredEntry[] = [];
      for (const credential of credentials) {
        const ref = placeOf(credential, entries);
        const before = entries.get(ref);
        requireSameTerms(credential, before);
        if (credential.renews && !(before?.loan && !isOver(before))) throw endedError(credential);
        if (before?.revoked_at !== undefined && credential.vm !== undefined) continue;
        const entry = mergeEntry(ref, credential, before);
        added.push(entry);
        entries.set(ref, await seal(await key(), entry, credential.secret));
      }
      return added;
    });
  }

  /**
   * Replaces the secrets of a login by others, in one write; none ends the login. The old ones leave no
   * entry: they are renewed every hour, and would push out what people added.
   *
   * @throws {SbxError} as {@linkcode add}; `credential.conflict`: the server gave a secret that is stored
   * already
   */
  async replaceLogin(place: LoginPlace, credentials: readonly NewLoginSecret[]): Promise<StoredEntry[]> {
    for (const { secret } of credentials) checkSecret(secret);
    return await this.#change(async (entries, key) => {
      const removed = [...entries.values()].filter(({ login }) => login && isSamePlace(login, place));
      for (const { ref } of removed) entries.delete(ref);
      for (const credential of credentials) {
        const entry = loginEntry(place, credential);
        if (entries.get(entry.ref)?.revoked_at === undefined && entries.has(entry.ref)) {
          throw new SbxError("credential.conflict", `${place.server} gave a token that is stored already`, {
            hint: "revoke it and log in again: sbx credentials list shows it",
          });
        }
        entries.set(entry.ref, await seal(await key(), entry, credential.secret));
      }
      return removed;
    });
  }

  /**
   * Puts entries with their secrets in place of others, in one write.
   *
   * @param make gets all entries by ref, and returns the ones to put and the refs to remove
   * @throws {SbxError} as {@linkcode add}, and what `make` throws; the store stays as it was
   */
  async put(
    make: (entries: ReadonlyMap<string, StoredEntry>) => {
      put: readonly { entry: StoredEntry; secret: string }[];
      removed?: readonly string[];
    },
  ): Promise<void> {
    await this.#change(async (entries, key) => {
      const { put, removed = [] } = make(entries);
      for (const { secret } of put) checkSecret(secret);
      for (const ref of removed) entries.delete(ref);
      for (const { entry, secret } of put) entries.set(entry.ref, await seal(await key(), entry, secret));
    });
  }

  /**
   * Removes a credential's secret for good, and of one VM's credential all of it: each
   * build may make some.
   *
   * @throws {SbxError} `credential.not_found`
   */
  async revoke(ref: string): Promise<StoredEntry> {
    const [revoked] = await this.#change((entries) => {
      const entry = entries.get(ref);
      if (!entry) {
        throw new SbxError("credential.not_found", `the credential store has no ${ref}`, {
          hint: "sbx credentials list shows the known refs",
        });
      }
      const tombstones = [entry, ...siblingsOf(entry, entries)].map(({ sealed: _, ...rest }) => ({
        ...rest,
        revoked_at: rest.revoked_at ?? new Date().toISOString(),
      }));
      for (const tombstone of tombstones) {
        if (isForVms(tombstone)) entries.delete(tombstone.ref);
        else entries.set(tombstone.ref, tombstone);
      }
      return tombstones;
    });
    return revoked;
  }

  /**
   * Removes loans whose time is over, as each change of the store does.
   *
   * @returns the end of the next one, in Unix `ms`; `undefined` without one
   */
  async endLoans(): Promise<number | undefined> {
    if (this.list().some((entry) => isOver(entry))) await this.#change(() => {});
    const ends = this.list().flatMap(({ loan }) => loan ? [Date.parse(loan.until)] : []);
    return ends.length > 0 ? Math.min(...ends) : undefined;
  }

  /**
   * Reads, changes and writes the store under its lock. Changes of this process are queued, so that only one
   * waits for the lock. The key is loaded on demand: a credential can be revoked without it.
   */
  #change<T>(
    change: (entries: Map<string, StoredEntry>, key: () => Promise<CryptoKey>) => Promise<T> | T,
  ): Promise<T> {
    const turn = this.#tail.then(async () => {
      try {
        await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
        using lock = await Deno.open(`${this.path}.lock`, { create: true, write: true, mode: 0o600 });
        if (!await lockWithin(lock, LOCK_TIMEOUT_MS)) throw busyError(this.path);
        const { file } = this.read();
        let made: StoreKey | undefined;
        const key = async () => (made ??= await (file ? this.#keys.find(file.key) : this.#keys.make())).key;
        const entries = new Map((file?.entries ?? []).map((entry) => [entry.ref, entry]));
        const result = await change(entries, key);
        const place = file?.key ?? made?.place;
        // No store and nothing for one: a file without the place of its key could not be read again.
        if (!place) return result;
        const remaining = dropExcess([...entries.values()].filter((entry) => !isOver(entry)));
        await writeAtomic(
          this.path,
          JSON.stringify({ version: 1, key: place, entries: remaining }, null, 1) + "\n",
        );
        return result;
      } catch (error) {
        throw asSbxError(error, `changing the credential store ${this.path}`);
      }
    });
    this.#tail = turn.catch(ignore("the caller of this turn gets the error"));
    return turn;
  }
}

/** The other token of a subscription's login, which ends with it. */
function siblingsOf({ ref, label, subscription }: StoredEntry, entries: Map<string, StoredEntry>) {
  return [...entries.values()].filter((other) =>
    subscription && other.ref !== ref && other.subscription?.login === subscription.login &&
    other.label === label
  );
}

function checkSecret(secret: string): void {
  if (isSecret(secret)) return;
  throw new SbxError(
    "credential.invalid",
    `invalid secret: it must be ${SECRET_MIN} to ${SECRET_MAX} visible ASCII characters without spaces`,
    { hint: "give the key alone, without quotes, variable name or line breaks" },
  );
}

/**
 * Ref of a credential: by its secret, and for a password that is stored for another
 * user or database, or for one VM, by these too.
 */
function placeOf(
  { provider, secret, database, vm, only, loan }: NewCredential,
  entries: ReadonlyMap<string, StoredEntry>,
): string {
  // The same secret may be one of other VMs too, under its own ref.
  if (only !== undefined) return refOf(provider, [secret, only, ...loan?.id ? [loan.id] : []].join("\0"));
  const ref = refOf(provider, secret);
  const before = entries.get(ref);
  if (!database || !before || vm !== undefined) return ref;
  const accountOf = ({ user, name }: DatabaseTerms) =>
    canonicalJson({ ...(user !== undefined && { user }), ...(name !== undefined && { name }) });
  const account = accountOf(database);
  const own = refOf(provider, `${secret}\0${account}`);
  const isAlive = (entry?: StoredEntry) => entry !== undefined && entry.revoked_at === undefined;
  // Of two entries for one account, the second would outlive the revocation of the first.
  if (isAlive(entries.get(own))) return own;
  return !isAlive(before) || account === accountOf(before.database ?? {}) ? ref : own;
}

function endedError({ provider }: NewCredential): SbxError {
  return new SbxError("credential.not_found", `the VM is not lent this login of ${provider} any more`, {
    hint: "it was revoked, or its time is over: the next build lends it again",
  });
}

/** One password of a user has one set of terms: the second would lose the first its limits. */
function requireSameTerms({ provider, database, vm }: NewCredential, before?: StoredEntry): void {
  const isNew = !before || before.revoked_at !== undefined || vm !== undefined;
  if (isNew || canonicalJson(database ?? {}) === canonicalJson(before.database ?? {})) return;
  throw new SbxError("credential.conflict", `this password of ${provider} is stored with other terms`, {
    hint: "revoke the other credential first: sbx credentials list",
  });
}

function mergeEntry(ref: string, credential: NewCredential, before?: StoredEntry): StoredEntry {
  const { provider, label, hosts, custom, origin, decoy, database, ssh, signing, offer, vm, only, loan } =
    credential;
  const alive = before?.revoked_at === undefined ? before : undefined;
  const entry: StoredEntry = {
    ref,
    provider,
    created_at: alive?.created_at ?? new Date().toISOString(),
    source: vm === undefined || alive?.source === "added" ? "added" : "captured",
  };
  const texts = {
    hosts: union(alive?.hosts, hosts),
    // VMs of a captured one matter only until a person adds the credential.
    vms: only !== undefined
      ? [only]
      : entry.source === "captured"
      ? union(alive?.vms, vm === undefined ? [] : [vm])
      : [],
  };
  if (isClientToken(credential.secret)) entry.kind = "token";
  if (label ?? alive?.label) entry.label = label ?? alive?.label;
  const terms = vm === undefined ? database : alive?.database;
  if (terms) entry.database = terms;
  if (ssh) entry.ssh = { ...ssh, servers: serversOf(alive?.ssh?.servers ?? [], ssh.servers) };
  if (signing ?? alive?.signing) entry.signing = signing ?? alive?.signing;
  if (entry.source === "captured" && (alive?.offer ?? offer)) entry.offer = alive?.offer ?? offer;
  if (texts.hosts.length) entry.hosts = texts.hosts;
  // A key that a guest brings again changes nothing that a person said of it.
  const places = vm === undefined ? custom : alive?.custom ?? custom;
  if (places) entry.custom = places;
  if (origin ?? alive?.origin) entry.origin = origin ?? alive?.origin;
  if (texts.vms.length) entry.vms = texts.vms;
  // A credential that the VM has for good is not a loan.
  if (loan && (!alive || alive.loan)) entry.loan = loan;
  // Capturing a decoy's secret from a guest does not make it an ordinary credential.
  if (vm === undefined ? decoy : alive?.decoy) entry.decoy = true;
  return entry;
}

/** A server that is named again has its last user's host keys. */
function serversOf(before: readonly SshServer[], added: readonly SshServer[]): SshServer[] {
  const isNamed = ({ host, user }: SshServer) =>
    added.some((each) => each.host === host && each.user === user);
  return [...before.filter((each) => !isNamed(each)), ...added].slice(-LIST_KEPT);
}

/** Most hosts or VMs stored with one credential; the latest stay. */
const LIST_KEPT = 32;

function union(a: string[] = [], b: string[] = []): string[] {
  return [...new Set([...a, ...b])].slice(-LIST_KEPT);
}

/**
 * Drops entries over the limit: revoked ones first, then the oldest captured ones, so that no guest can keep
 * a person from adding a credential.
 *
 * @throws {SbxError} `credential.limit`: too many credentials added by people
 */
function dropExcess(entries: StoredEntry[]): StoredEntry[] {
  let remaining = entries;
  const droppable = [
    (entry: StoredEntry) => entry.revoked_at !== undefined,
    (entry: StoredEntry) => entry.source === "captured",
  ];
  for (const isDroppable of droppable) {
    let over = remaining.length - ENTRIES_MAX;
    remaining = remaining.filter((entry) => !isDroppable(entry) || over-- <= 0);
  }
  if (remaining.length <= ENTRIES_MAX) return remaining;
  throw new SbxError("credential.limit", `the store is at its limit of ${ENTRIES_MAX} credentials`, {
    hint: "revoke one that is no longer needed: sbx credentials revoke REF",
  });
}

function busyError(path: string): SbxError {
  return new SbxError("credential.busy", `another program keeps ${path} locked`, {
    hint: "close other sbx programs and try again",
  });
}
