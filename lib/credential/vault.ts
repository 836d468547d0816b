/**
 * Credentials of a running broker in memory, following the store on disk. `broker.ts` applies them to
 * requests.
 */
import { asSbxError, type SbxError } from "../base/error/mod.ts";
import { backgroundInterval } from "../base/time/mod.ts";
import { partsOfAwsSecret } from "./aws/keys.ts";
import { placeholderOf } from "./aws/placeholder.ts";
import { isForVms, type StoredEntry, type StoreFile } from "./entry.ts";
import { Finder } from "./finder.ts";
import { chosenOf, isLeft, type LabelTable } from "./choice.ts";
import { Catalogue, hostTest } from "./catalogue.ts";
import { plainHost } from "../base/address/mod.ts";
import { type CustomProvider, definitionOf, isProvider, type Provider } from "./provider.ts";
import { refOf, refTexts } from "./ref.ts";
import type { CredentialStore, NewCredential } from "./store.ts";

/** Interval of polling an idle store, in `ms`: requests in flight end within it after a revoke. */
const POLL_MS = 250;
/** Interval of retrying an unreadable store that has not changed, in `ms`. */
const RETRY_MS = 5000;
/** Most texts remembered as clean, and most characters of one. */
const CLEAN_MAX = 1024;
const CLEAN_LENGTH_MAX = 256;
/** Most earlier secrets of one credential that are still recognized. */
const FORMER_MAX = 4;
/** Provider of keys that name their hosts themselves. */
const ANY_SERVER = "mcp";
/** Most credentials captured from one VM's traffic. */
export const CAPTURED_MAX = 64;

/** One credential of a running broker. */
export interface Credential {
  entry: StoredEntry;
  /** absent until opened or provided; stays after a revoke, so that it is still recognized */
  secret?: string;
  /** random text that the store has in place of a secret with an origin: stays while secrets come and go */
  root?: string;
  /** of a secret that was provided, in Unix `ms` */
  expiresAt?: number;
  /** provided before, the last first: guests may hold what came with them */
  former?: readonly string[];
  /** aborted when the credential is revoked */
  controller: AbortController;
  isRevoked: boolean;
  /** captured from this VM */
  isOwn: boolean;
  /** not in the store's file yet */
  isUnsaved: boolean;
}

/** Terms of a contract about providers. */
export interface ProviderTerms {
  /** the ones that its profile grants */
  providers: ReadonlySet<Provider>;
  /** the only ones that corp leaves; absent: all of them */
  only?: ReadonlySet<Provider>;
  /** providers that its profile and corp add */
  custom?: Readonly<Record<Provider, CustomProvider>>;
  /** tables of the only hosts that keys of some providers may go to */
  hosts?: readonly Readonly<Record<Provider, readonly string[]>>[];
  /** tables of the labels of the only keys of some providers */
  labels?: readonly LabelTable[];
}

/** Credentials of a running broker; follows the changes other processes make to the store. */
export class Vault {
  readonly #store: CredentialStore;
  readonly #vm?: string;
  readonly #onError: (error: SbxError) => void;
  readonly #credentials = new Map<string, Credential>();
  /** secret → ref */
  readonly #refs = new Map<string, string>();
  /** stamp of the file at the last read; "unread" matches no file */
  #stamp = "unread";
  #broken?: SbxError;
  /** next retry of an unreadable store, in Unix `ms` */
  #retryAt = 0;
  /** number of the last read, to detect an outdated opening */
  #generation = 0;
  #opening: Promise<void> = Promise.resolve();
  #saving: Promise<void> = Promise.resolve();
  #unsaved: NewCredential[] = [];
  #capturedCount = 0;
  #finder?: Finder;
  /** short texts without matches of the finder: most header fields repeat */
  readonly #clean = new Set<string>();
  /** codings in which decoys were found in the heads that wait to be sent, by ref and host */
  readonly codings = new Map<string, string>();
  /** host that a credential names → its provider */
  #bound?: ReadonlyMap<string, Provider>;
  /** by their identifiers */
  #placeholders?: ReadonlyMap<string, { credential: Credential; secret: string }>;
  #terms: ProviderTerms = { providers: new Set() };
  #catalogue = Catalogue.BUILT_IN;
  readonly #own = new WeakMap<CustomProvider, Catalogue>();
  /** entries with an origin that their seal has proved */
  readonly #proved = new WeakSet<StoredEntry>();
  #timer: number;

  constructor(store: CredentialStore, vm: string | undefined, onError: (error: SbxError) => void) {
    this.#store = store;
    this.#vm = vm;
    this.#onError = onError;
    this.#timer = backgroundInterval(() => this.poll(), POLL_MS);
  }

  /** Replaces the terms. */
  use(terms: ProviderTerms): void {
    this.#terms = terms;
    // A contract of an earlier sbx may add a provider that is built in now.
    const added = Object.entries(terms.custom ?? {}).filter(([id]) => !isProvider(id))
      .map(([id, custom]) => definitionOf(id, custom));
    this.#catalogue = added.length > 0 ? new Catalogue(added) : Catalogue.BUILT_IN;
    // Keys of other shapes are found.
    this.#finder = undefined;
    this.#clean.clear();
  }

  /** Every provider of the VM's contract. */
  get catalogue(): Catalogue {
    return this.#catalogue;
  }

  /** Provider of a text that has the shape of its keys. */
  shaped(text: string): Provider | undefined {
    return this.#catalogue.shapes.providerOf(text);
  }

  /** The catalogue for one credential: a person added it for the hosts and places that its own entry has. */
  catalogueOf({ entry: { provider, custom } }: Credential): Catalogue {
    if (!custom) return this.#catalogue;
    return this.#own.getOrInsertComputed(custom, () => new Catalogue([definitionOf(provider, custom)]));
  }

  /** True where profile and corp leave a host to a provider's keys. */
  mayReach(provider: Provider, host: string): boolean {
    const name = plainHost(host);
    return (this.#terms.hosts ?? []).every((table) =>
      !Object.hasOwn(table, provider) || table[provider].some((each) => hostTest(each)(name))
    );
  }

  /** True where a person, profile and corp leave the VM a key of its provider. */
  leaves(entry: StoredEntry): boolean {
    return isLeft(entry, this.#terms.labels);
  }

  /** The key of a provider that the VM gets. */
  chosen(provider: Provider): Credential | undefined {
    const entry = chosenOf(
      this.active().map(({ entry }) => entry),
      provider,
      this.#terms.labels,
    );
    return entry && this.#credentials.get(entry.ref);
  }

  /** True if the VM may use keys of a provider: the granted ones, and its own where nothing forbids them. */
  mayUse(provider: Provider, isOwn: boolean): boolean {
    const { providers, only } = this.#terms;
    if (providers.has(provider)) return true;
    return isOwn && !this.catalogue.isAlways(provider) &&
      (!only || only.has(provider));
  }

  /**
   * True if the host may use keys of a provider for the VM: a server's definition is the grant, and corp may
   * leave the provider out. A key of no provider is for the server that it names.
   */
  mayHostUse(provider: Provider): boolean {
    const { only } = this.#terms;
    return provider === ANY_SERVER || !only || only.has(provider);
  }

  /**
   * True for a provider whose secrets are taken in any form: granted ones, and providers that count in every
   * VM. A key of another provider is taken by its shape only, and what has none stays as it is.
   */
  takes(provider: Provider): boolean {
    return this.catalogue.isAlways(provider) || this.#terms.providers.has(provider);
  }

  /** Error of an unreadable store; no credential may be used while it is set. */
  get broken(): SbxError | undefined {
    return this.#broken;
  }

  /** Finder of every known secret, of text shaped like one, and of refs. */
  get finder(): Finder {
    return this.#finder ??= new Finder(this.secrets(), { shapes: this.#catalogue.shapes });
  }

  /** Tests whether a text holds a secret, or text shaped like one, or a ref. */
  isUnclean(text: string): boolean {
    if (text.length < this.finder.least || this.#clean.has(text)) return false;
    if (this.finder.find(text).length > 0) return true;
    if (text.length <= CLEAN_LENGTH_MAX) {
      if (this.#clean.size >= CLEAN_MAX) this.#clean.clear();
      this.#clean.add(text);
    }
    return false;
  }

  /** Pairs of ref and secret, including revoked ones. */
  *secrets(refs?: ReadonlySet<string>): Generator<[string, string]> {
    for (const [ref, { secret, former = [], entry: { provider } }] of this.#credentials) {
      if (secret === undefined || refs && !refs.has(ref)) continue;
      for (const each of [secret, ...former]) {
        yield [ref, each];
        // Each half of a key that signs is a secret of its own.
        if (this.catalogue.signs(provider)) { for (const part of partsOfAwsSecret(each)) yield [ref, part]; }
      }
    }
    if (!refs) yield* this.#decoyRefs();
  }

  /** Pairs of ref and its own text for decoys, whose refs are searched for in every coding. */
  *#decoyRefs(): Generator<[string, string]> {
    for (const [ref, { entry }] of this.#credentials) {
      if (entry.decoy) { for (const text of refTexts(ref)) yield [ref, text]; }
    }
  }

  /** Every text of a decoy: its ref, and its secret. */
  *decoyTexts(): Generator<[string, string]> {
    yield* this.#decoyRefs();
    for (const [ref, text] of this.secrets()) if (this.isDecoy(ref)) yield [ref, text];
  }

  get hasDecoys(): boolean {
    return this.#credentials.values().some(({ entry }) => entry.decoy === true);
  }

  isDecoy(ref: string): boolean {
    return this.#credentials.get(ref)?.entry.decoy === true;
  }

  /** The credential whose placeholder in this VM has an identifier, with the placeholder's secret. */
  placeholder(id: string): { credential: Credential; secret: string } | undefined {
    this.#placeholders ??= new Map(
      this.#vm === undefined ? [] : [...this.#credentials.values()].flatMap((credential) => {
        const { entry: { provider, source, decoy } } = credential;
        if (!this.catalogue.signs(provider) || source !== "added" || decoy) return [];
        const placeholder = this.placeholderOf(credential);
        return placeholder === undefined
          ? []
          : [[placeholder.id, { credential, secret: placeholder.secret }] as const];
      }),
    );
    return this.#placeholders.get(id);
  }

  /** Placeholder of a credential in this VM; `undefined` for the host. */
  placeholderOf(credential: Credential): { id: string; secret: string } | undefined {
    const root = credential.entry.origin ? credential.root : credential.secret;
    return this.#vm === undefined || root === undefined ? undefined : placeholderOf(root, this.#vm);
  }

  /** Reads the store if it changed. Credentials revoked by other processes are revoked here on return. */
  poll(): void {
    const retry = this.#broken !== undefined && Date.now() >= this.#retryAt;
    if (!retry && this.#store.stamp() === this.#stamp) return;
    try {
      const { file, stamp } = this.#store.read();
      this.#stamp = stamp;
      this.#apply(file);
    } catch (error) {
      this.#stamp = this.#store.stamp();
      this.#fail(error);
    }
  }

  /** Reads the store if it changed, and waits until every secret is open. */
  async refresh(): Promise<void> {
    this.poll();
    await this.#opening;
  }

  get(ref: string): Credential | undefined {
    return this.#credentials.get(ref);
  }

  /** Credentials that are not revoked, in no order. */
  *active(): Generator<Credential> {
    for (const credential of this.#credentials.values()) if (!credential.isRevoked) yield credential;
  }

  /** Ref of a known secret. */
  refOfSecret(secret: string): string | undefined {
    return this.#refs.get(secret);
  }

  /** Ref of any secret, known or not. */
  refOf(provider: Provider, secret: string): string {
    return this.#refs.get(secret) ?? refOf(provider, secret);
  }

  /** Provider of a credential that names this host; `mcp` where several do. */
  boundTo(host: string): Provider | undefined {
    this.#bound ??= new Map(
      [...this.active()]
        .filter(({ entry, isOwn }) => isOwn || !isForVms(entry))
        // No request carries a database's password, or a key that signs.
        .filter(({ entry: { provider } }) =>
          this.catalogue.namesHosts(provider) && !this.catalogue.find(provider)?.database &&
          !this.catalogue.find(provider)?.ssh &&
          !this.catalogue.signs(provider)
        )
        .toSorted((a, b) => Number(a.entry.provider === "mcp") - Number(b.entry.provider === "mcp"))
        .flatMap(({ entry: { provider, hosts = [] } }) =>
          hosts.map((bound): [string, Provider] => [bound.split(":")[0], provider])
        ),
    );
    return this.#bound.get(plainHost(host));
  }

  /** Tests whether a credential names this host. */
  isBound(host: string): boolean {
    return this.boundTo(host) !== undefined;
  }

  /** Provider whose secrets are for a host: its owner, or the one of a credential that names it. */
  providerAt(host: string): Provider | undefined {
    return this.catalogue.ownerOf(host) ?? this.boundTo(host) ?? this.catalogue.cloudOf(host);
  }

  /** Tests whether a secret of this provider can be sent. */
  holds(provider: Provider): boolean {
    for (const { entry, secret } of this.active()) {
      if (entry.provider === provider && secret !== undefined && !entry.decoy) return true;
    }
    return false;
  }

  /**
   * Takes the current secret of a credential that has an origin.
   *
   * @returns false for another credential, and for one whose entry has not been proved by its seal
   */
  provide(ref: string, { secret, expires_at }: { secret: string; expires_at: number }): boolean {
    const credential = this.#credentials.get(ref);
    if (!credential?.entry.origin || !this.#proved.has(credential.entry)) return false;
    const { secret: before, former = [] } = credential;
    credential.expiresAt = expires_at;
    if (secret === before) return true;
    credential.secret = secret;
    if (before !== undefined) credential.former = [before, ...former].slice(0, FORMER_MAX);
    this.#set(credential);
    return true;
  }

  /**
   * Adds a secret captured from this VM.
   *
   * @returns its ref and the outcome; `full` when the VM is over {@linkcode CAPTURED_MAX} and the ref
   * resolves to nothing
   */
  learn(
    provider: Provider,
    secret: string,
    { hosts, offer }: Pick<NewCredential, "hosts" | "offer"> = {},
  ): { ref: string; outcome: "known" | "new" | "full" } {
    const ref = this.refOf(provider, secret);
    const credential = this.#credentials.get(ref);
    if (credential?.isOwn || credential?.isRevoked || credential?.entry.source === "added") {
      return { ref, outcome: "known" };
    }
    if (this.#capturedCount >= CAPTURED_MAX) return { ref, outcome: "full" };
    const { custom: all = {} } = this.#terms;
    const custom = !isProvider(provider) && Object.hasOwn(all, provider) ? all[provider] : undefined;
    this.#capturedCount++;
    if (credential) {
      credential.isOwn = true;
      credential.secret = secret;
      this.#set(credential);
    } else {
      const entry: StoredEntry = { ref, provider, created_at: new Date().toISOString(), source: "captured" };
      if (hosts) entry.hosts = hosts;
      if (offer) entry.offer = offer;
      if (custom) entry.custom = custom;
      this.#set({
        entry,
        secret,
        controller: new AbortController(),
        isRevoked: false,
        isOwn: true,
        isUnsaved: true,
      });
    }
    this.#save({ provider, secret, hosts, custom, offer, vm: this.#vm ?? "" });
    return { ref, outcome: credential ? "known" : "new" };
  }

  /** Waits until captured credentials are in the store. */
  async flush(): Promise<void> {
    await this.#saving;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#opening;
    await this.flush();
  }

  #apply(file: StoreFile | undefined): void {
    const entries = new Map(file?.entries.map((entry) => [entry.ref, entry]));
    for (const [ref, credential] of this.#credentials) {
      const entry = entries.get(ref);
      if (entry) credential.isUnsaved = false;
      if (entry?.revoked_at !== undefined || (!entry && !credential.isUnsaved)) revoke(credential);
      else if (entry && entry.sealed === credential.entry.sealed) revive(credential);
    }
    for (const [ref, entry] of entries) {
      if (this.#credentials.has(ref)) continue;
      this.#set({
        entry,
        controller: new AbortController(),
        isRevoked: entry.revoked_at !== undefined,
        isOwn: this.#isOwn(entry),
        isUnsaved: false,
      });
    }
    this.#bound = undefined;
    const generation = ++this.#generation;
    this.#opening = this.#opening.then(() => this.#open(file, generation)).catch((error) =>
      this.#fail(error)
    );
  }

  /**
   * Opens new secrets. A changed entry counts only once its seal has proved it. Secrets of other
   * VMs stay closed: this VM cannot know them, so there is nothing to search for.
   */
  async #open(file: StoreFile | undefined, generation: number): Promise<void> {
    const closed = file?.entries.filter((entry) => {
      const credential = this.#credentials.get(entry.ref)!;
      const isUsable = entry.source === "added" && !isForVms(entry) || credential.isOwn || this.#isOwn(entry);
      return isUsable && entry.sealed !== undefined &&
        ((entry.origin ? !this.#proved.has(credential.entry) : credential.secret === undefined) ||
          credential.entry.sealed !== entry.sealed);
    }) ?? [];
    const secrets = file ? await this.#store.open(file, closed) : new Map<string, string>();
    // The file changed meanwhile: the later read opens its secrets.
    if (generation !== this.#generation) return;
    this.#broken = undefined;
    for (const entry of closed) {
      const credential = this.#credentials.get(entry.ref)!;
      credential.entry = entry;
      const { secret: before } = credential;
      if (entry.origin) {
        this.#proved.add(entry);
        credential.root = secrets.get(entry.ref);
      } else credential.secret = secrets.get(entry.ref);
      if (entry.subscription && before !== undefined && before !== credential.secret) {
        credential.former = [before, ...credential.former ?? []].slice(0, FORMER_MAX);
      }
      credential.isOwn ||= this.#isOwn(entry);
      revive(credential);
      this.#set(credential);
    }
  }

  #isOwn({ vms }: StoredEntry): boolean {
    return this.#vm !== undefined && vms?.includes(this.#vm) === true;
  }

  #set(credential: Credential): void {
    this.#placeholders = undefined;
    this.#credentials.set(credential.entry.ref, credential);
    this.#bound = undefined;
    if (credential.secret === undefined) return;
    this.#refs.set(credential.secret, credential.entry.ref);
    this.#finder = undefined;
    this.#clean.clear();
  }

  /** Saves captured credentials; those captured during a write go into one later write. */
  #save(credential: NewCredential): void {
    this.#unsaved.push(credential);
    if (this.#unsaved.length > 1) return;
    this.#saving = this.#saving.then(async () => {
      const batch = this.#unsaved;
      this.#unsaved = [];
      await this.#store.add(batch);
    }).catch((error) => this.#onError(asSbxError(error, "saving a captured credential")));
  }

  /** Revokes everything of an unreadable store until a retry succeeds: its keyring may be unlocked later. */
  #fail(error: unknown): void {
    const before = this.#broken?.message;
    this.#broken = asSbxError(error, "reading the credential store");
    this.#retryAt = Date.now() + RETRY_MS;
    for (const credential of this.#credentials.values()) if (!credential.isUnsaved) revoke(credential);
    this.#bound = undefined;
    if (this.#broken.message !== before) this.#onError(this.#broken);
  }
}

function revoke(credential: Credential): void {
  if (credential.isRevoked) return;
  credential.isRevoked = true;
  credential.controller.abort();
}

function revive(credential: Credential): void {
  if (!credential.isRevoked) return;
  credential.isRevoked = false;
  credential.controller = new AbortController();
}
