import { asSbxError, type SbxError } from "../base/error/mod.ts";
import type { StoredEntry, StoreFile } from "./entry.ts";
import { Finder } from "./finder.ts";
import { plainHost, type Provider } from "./provider.ts";
import { refOf } from "./ref.ts";
import type { CredentialStore, NewCredential } from "./store.ts";

/** How often the store's file is looked at while nothing is asked of it: uses in flight end that soon after a revoke. */
const LOOK_MS = 250;
/** How often a store that cannot be read is tried again though it has not changed. */
const RETRY_MS = 5000;
/** Most credentials that one VM's traffic may add to the store. */
export const CAPTURED_MAX = 64;

/** One credential as a running broker knows it. */
export interface Known {
  entry: StoredEntry;
  /** absent until it is opened; kept after a revoke, so that it is still recognized */
  secret?: string;
  /** aborted when it is revoked */
  controller: AbortController;
  revoked: boolean;
  /** this VM brought it */
  mine: boolean;
  /** not in the store's file yet */
  pending: boolean;
}

/** What a running broker knows of the store; it follows what other processes write. */
export class Vault {
  readonly #store: CredentialStore;
  readonly #vm?: string;
  readonly #onError: (error: SbxError) => void;
  readonly #known = new Map<string, Known>();
  readonly #refs = new Map<string, string>();
  /** what the file was like when it was read last; no file has this one */
  #stamp = "unread";
  #broken?: SbxError;
  /** when a store that could not be read is tried again, unix milliseconds */
  #again = 0;
  #turn = 0;
  #opening: Promise<void> = Promise.resolve();
  #saving: Promise<void> = Promise.resolve();
  #toSave: NewCredential[] = [];
  #captured = 0;
  #finder?: Finder;
  #timer: ReturnType<typeof setInterval>;

  constructor(store: CredentialStore, vm: string | undefined, onError: (error: SbxError) => void) {
    this.#store = store;
    this.#vm = vm;
    this.#onError = onError;
    this.#timer = setInterval(() => this.look(), LOOK_MS);
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  /** Why nothing of the store may be used, when it cannot be read. */
  get broken(): SbxError | undefined {
    return this.#broken;
  }

  /** Finds every secret that is known, what looks like one, and refs. */
  get finder(): Finder {
    return this.#finder ??= new Finder(this.secrets());
  }

  /** ref → secret, revoked ones included. */
  *secrets(of?: ReadonlySet<string>): Generator<[string, string]> {
    for (const [ref, { secret }] of this.#known) {
      if (secret !== undefined && (!of || of.has(ref))) yield [ref, secret];
    }
  }

  /** Takes note of what other processes wrote: what they revoked holds no more when this returns. */
  look(): void {
    const again = this.#broken !== undefined && Date.now() >= this.#again;
    if (!again && this.#store.stamp() === this.#stamp) return;
    try {
      const { file, stamp } = this.#store.read();
      this.#stamp = stamp;
      this.#take(file);
    } catch (error) {
      this.#stamp = this.#store.stamp();
      this.#fail(error);
    }
  }

  /** Looks, and waits until every secret is open. */
  async refresh(): Promise<void> {
    this.look();
    await this.#opening;
  }

  get(ref: string): Known | undefined {
    return this.#known.get(ref);
  }

  /** Those that may be used, in no order. */
  *alive(): Generator<Known> {
    for (const known of this.#known.values()) if (!known.revoked) yield known;
  }

  /** The ref of a secret that is known. */
  refOfSecret(secret: string): string | undefined {
    return this.#refs.get(secret);
  }

  /** The ref of a secret, which need not be known. */
  refOf(provider: Provider, secret: string): string {
    return this.#refs.get(secret) ?? refOf(provider, secret);
  }

  /** Whether some credential of `mcp` is bound to this host. */
  isBound(host: string): boolean {
    for (const { entry } of this.alive()) {
      if (entry.provider === "mcp" && entry.hosts?.some((bound) => bound.split(":")[0] === plainHost(host))) {
        return true;
      }
    }
    return false;
  }

  /**
   * Takes a secret that this VM brought.
   *
   * @returns what became of it: `full` when this VM brought too many, and its ref leads nowhere
   */
  learn(
    provider: Provider,
    secret: string,
    hosts?: string[],
  ): { ref: string; outcome: "known" | "new" | "full" } {
    const ref = this.refOf(provider, secret);
    const known = this.#known.get(ref);
    if (known?.mine || known?.revoked || known?.entry.source === "added") return { ref, outcome: "known" };
    if (this.#captured >= CAPTURED_MAX) return { ref, outcome: "full" };
    this.#captured++;
    if (known) {
      known.mine = true;
      known.secret = secret;
      this.#put(known);
    } else {
      const entry: StoredEntry = { ref, provider, created_at: new Date().toISOString(), source: "captured" };
      if (hosts) entry.hosts = hosts;
      this.#put({
        entry,
        secret,
        controller: new AbortController(),
        revoked: false,
        mine: true,
        pending: true,
      });
    }
    this.#save({ provider, secret, hosts, vm: this.#vm ?? "" });
    return { ref, outcome: known ? "known" : "new" };
  }

  /** Waits until what guests brought is in the store. */
  async flush(): Promise<void> {
    await this.#saving;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#opening;
    await this.flush();
  }

  #take(file: StoreFile | undefined): void {
    const entries = new Map(file?.entries.map((entry) => [entry.ref, entry]));
    for (const [ref, known] of this.#known) {
      const now = entries.get(ref);
      if (now) known.pending = false;
      if (now?.revoked_at !== undefined || (!now && !known.pending)) end(known);
      else if (now && now.sealed === known.entry.sealed) revive(known);
    }
    for (const [ref, entry] of entries) {
      if (this.#known.has(ref)) continue;
      const revoked = entry.revoked_at !== undefined;
      this.#put({
        entry,
        controller: new AbortController(),
        revoked,
        mine: this.#isMine(entry),
        pending: false,
      });
    }
    const turn = ++this.#turn;
    this.#opening = this.#opening.then(() => this.#open(file, turn)).catch((error) => this.#fail(error));
  }

  /**
   * Opens what is new. What the file says of a credential counts only once its seal has proved it. What other VMs
   * brought stays closed: this one cannot know it, so there is nothing to look for.
   */
  async #open(file: StoreFile | undefined, turn: number): Promise<void> {
    const closed = file?.entries.filter((entry) => {
      const known = this.#known.get(entry.ref)!;
      const isOurs = entry.source === "added" || known.mine || this.#isMine(entry);
      return isOurs && entry.sealed !== undefined &&
        (known.secret === undefined || known.entry.sealed !== entry.sealed);
    }) ?? [];
    const secrets = file ? await this.#store.open(file, closed) : new Map<string, string>();
    // The file has changed in the meantime: whoever saw that opens what is there now.
    if (turn !== this.#turn) return;
    this.#broken = undefined;
    for (const entry of closed) {
      const known = this.#known.get(entry.ref)!;
      known.entry = entry;
      known.secret = secrets.get(entry.ref);
      known.mine ||= this.#isMine(entry);
      revive(known);
      this.#put(known);
    }
  }

  #isMine({ vms }: StoredEntry): boolean {
    return this.#vm !== undefined && vms?.includes(this.#vm) === true;
  }

  #put(known: Known): void {
    this.#known.set(known.entry.ref, known);
    if (known.secret === undefined) return;
    this.#refs.set(known.secret, known.entry.ref);
    this.#finder = undefined;
  }

  /** Those that come while the file is written go together. */
  #save(credential: NewCredential): void {
    this.#toSave.push(credential);
    if (this.#toSave.length > 1) return;
    this.#saving = this.#saving.then(async () => {
      const batch = this.#toSave;
      this.#toSave = [];
      await this.#store.add(batch);
    }).catch((error) => this.#onError(asSbxError(error, "keeping a captured credential")));
  }

  /** Nothing of a store that cannot be read is used; a keyring may be unlocked later, so it is tried again. */
  #fail(error: unknown): void {
    const before = this.#broken?.message;
    this.#broken = asSbxError(error, "reading the credential store");
    this.#again = Date.now() + RETRY_MS;
    for (const known of this.#known.values()) if (!known.pending) end(known);
    if (this.#broken.message !== before) this.#onError(this.#broken);
  }
}

function end(known: Known): void {
  if (known.revoked) return;
  known.revoked = true;
  known.controller.abort();
}

function revive(known: Known): void {
  if (!known.revoked) return;
  known.revoked = false;
  known.controller = new AbortController();
}
