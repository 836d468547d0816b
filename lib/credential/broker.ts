/**
 * Broker of one VM: replaces refs by secrets on the way out, and secrets by refs on the way in
 * (docs/design/contracts/09-credentials.md §9).
 */
import type { SbxError } from "../base/error/mod.ts";
import type { CredentialSubstitution, Event } from "../event/mod.ts";
import type { Header } from "../network/mod.ts";
import type {
  AttendedRequest,
  BodyFilter,
  BodyPlace,
  CredentialPort,
  DatabaseAccount,
  DatabaseLogin,
  DecoySearch,
  Destination,
  HostAnswer,
  Injected,
  MessageFilter,
  MessagePlace,
  RequestSignature,
  SignedRequest,
  SshAccount,
  SshLogin,
  Substituted,
} from "../network/interface/mod.ts";
import { awsSignature } from "./aws/request.ts";
import { AWS_VARIABLES, isPlaceholderId } from "./aws/placeholder.ts";
import { type Accounts, requireStoredHead, storedTokenBody } from "./account.ts";
import { requestBody, responseBody } from "./body.ts";
import { Capture, Injection } from "./head.ts";
import type { LoginPlace } from "./entry.ts";
import { decoyIn } from "./decoy.ts";
import { DecoyStream } from "./decoy_stream.ts";
import { grantSecret } from "./grant.ts";
import { SentSecrets } from "./sent.ts";
import { messageFilter } from "./message.ts";
import { METADATA_HOST, plainHost } from "../base/address/mod.ts";
import type { Definition, Provider } from "./provider.ts";
import { joinedTexts, REDACTED, scrubTexts, someText, textsOf, withTexts } from "./scrub.ts";
import type { CredentialStore } from "./store.ts";
import { isSecret } from "./form.ts";
import { REF } from "./ref.ts";
import { RegistryTokens } from "./registry.ts";
import { isClientToken } from "./token.ts";
import { cleanTrailers } from "./trailer.ts";
import { type ProviderTerms, Vault } from "./vault.ts";
import {
  isSigningProgram,
  SIGNING,
  signingFiles,
  type SigningKey,
  signingKeyOf,
  signingSettings,
} from "./signing.ts";
import { cloudEnv, identitiesOf } from "./cloud/identities.ts";
import { SubscriptionHost } from "./subscription/attend.ts";
import { guestFiles, type GuestLoginFile } from "./subscription/guest.ts";
import { sshAccountsAt, sshLogin, sshPlaces } from "./ssh/login.ts";
import { Subscriptions } from "./subscription/subscriptions.ts";

/** Parts of a broker. */
export interface BrokerOptions {
  store: CredentialStore;
  /** providers granted by the VM's profile (`[credentials] providers`) */
  providers: Iterable<Provider>;
  /** the only providers that corp leaves; default: all */
  only?: Iterable<Provider>;
  /** accounts that the VM may use at providers (`[credentials] accounts`); default `any` */
  accounts?: Accounts;
  /** providers that profile and corp add */
  custom?: ProviderTerms["custom"];
  /** tables of the only hosts that keys of some providers may go to */
  hosts?: ProviderTerms["hosts"];
  /** tables of the labels of the only keys of some providers */
  labels?: ProviderTerms["labels"];
  /** VM whose traffic passes the broker; absent for the host's own requests */
  vm?: string;
  /** logins of subscriptions; default: the store's */
  logins?: Subscriptions;
  /** receives errors outside any request: an unreadable store, a secret that could not be stored */
  onError?(error: SbxError): void;
}

/** Secrets of programs by ref, with the ends of their use in Unix `ms`. */
export type ProvidedSecrets = Readonly<Record<string, { secret: string; expires_at: number }>>;

/** Secret for a request of the host itself. */
export interface HostUse {
  secret: string;
  /** aborts when the credential is revoked */
  released: AbortSignal;
  substitutions: readonly CredentialSubstitution[];
}

const [AWS_ID, AWS_SECRET] = AWS_VARIABLES;
/** Least status of an error. */
const ERROR_STATUS = 400;
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+)$/;

/** JSON Web Token; it identifies a person even where it grants no access. */
const JWT = /(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}/g;

/**
 * Keeps secrets on the host (docs/design/contracts/09-credentials.md §9): guests and records hold refs,
 * upstreams get secrets. The caller writes the returned substitutions to the ledger.
 */
export class CredentialBroker implements CredentialPort {
  readonly #vault: Vault;
  #providers!: ReadonlySet<Provider>;
  #accounts!: Accounts;
  readonly #logins: Subscriptions;
  readonly #host: SubscriptionHost;
  readonly #sent: SentSecrets;
  /** keys that requests were signed with: a session token travels with a signature */
  readonly #signed: SentSecrets;
  readonly #registries = new RegistryTokens();

  private constructor({ store, vm, onError, logins, ...terms }: BrokerOptions) {
    this.#vault = new Vault(store, vm, onError ?? (() => {}));
    this.#logins = logins ?? new Subscriptions(store);
    this.#host = new SubscriptionHost(this.#vault, this.#logins);
    this.#sent = new SentSecrets(this.#vault);
    this.#signed = new SentSecrets(this.#vault);
    this.grant(terms);
  }

  /** Reads the store. An unreadable store does not fail here: every ref is refused until it can be read. */
  static async open(options: BrokerOptions): Promise<CredentialBroker> {
    const broker = new CredentialBroker(options);
    await broker.refresh();
    return broker;
  }

  /** Replaces the profile's grants; requests under way keep theirs. */
  grant(
    { providers, accounts = "any", only, custom, hosts, labels }: Pick<
      BrokerOptions,
      "providers" | "accounts" | "only" | "custom" | "hosts" | "labels"
    >,
  ): void {
    this.#providers = new Set(providers);
    this.#accounts = accounts;
    this.#vault.use({
      providers: this.#providers,
      ...(only && { only: new Set(only) }),
      ...(custom && { custom }),
      ...(hosts && { hosts }),
      ...(labels && { labels }),
    });
  }

  /** Error of an unreadable store; every ref is refused while it is set. */
  get broken(): SbxError | undefined {
    return this.#vault.broken;
  }

  capture(host: string, headers: Header[]): Substituted {
    return new Capture(this.#vault, host).headers(headers);
  }

  /** @throws {CredentialDenied} or {@linkcode DecoyUsed}: no part of the request may be sent */
  inject(to: Destination, headers: Header[]): Injected {
    if (this.#accounts === "stored") requireStoredHead(this.#vault, to, headers, this.#registries);
    const injection = new Injection(this.#vault, to);
    const injected = injection.headers(headers);
    this.#sent.record(to.host, injection.refs);
    return injected;
  }

  databases(host: string, port: number): DatabaseAccount[] {
    this.#vault.poll();
    const place = `${plainHost(host)}:${port}`;
    const found = [...this.#vault.active()].filter(({ entry: { provider, hosts, source, decoy } }) =>
      this.#vault.catalogue.find(provider)?.database && source === "added" && !decoy &&
      hosts?.includes(place) && this.#vault.mayUse(provider, false)
    );
    return found.filter(({ entry }) => this.#vault.leaves(entry))
      .toSorted((a, b) => b.entry.created_at.localeCompare(a.entry.created_at))
      .map(({ entry: { provider, ref, database } }) => ({
        system: provider as DatabaseAccount["system"],
        ref,
        ...database,
      }));
  }

  /**
   * Also for the ref that a guest gives as its password: the refusal says why this database does not get it.
   */
  login(ref: string, host: string, port: number): DatabaseLogin {
    const to = { scheme: "https", host, port };
    const { catalogue } = this.#vault;
    const isDatabase = (provider: Provider) => catalogue.find(provider)?.database !== undefined;
    const { secret, provider, signal } = grantSecret(this.#vault, ref, to, "password", isDatabase);
    return {
      secret,
      released: signal,
      substitution: {
        provider,
        credential_ref: ref,
        host: plainHost(host),
        location: "password",
        outcome: "injected",
      },
    };
  }

  sshAccounts(host: string, port: number): SshAccount[] {
    return sshAccountsAt(this.#vault, `${plainHost(host)}:${port}`);
  }

  sshLogin(ref: string, host: string, port: number): SshLogin {
    return sshLogin(this.#vault, ref, host, port);
  }

  /** `host:port` of the SSH servers that the host logs in to. */
  sshPlaces(): string[] {
    return sshPlaces(this.#vault);
  }

  signature(request: SignedRequest): RequestSignature | undefined {
    return awsSignature(this.#vault, this.#accounts, request, {
      inject: (to, headers) => this.inject(to, headers),
      onSigned: (host, ref) => this.#signed.record(host, new Set([ref])),
    });
  }

  /** @throws {CredentialDenied} one has a decoy */
  trailers({ host }: Destination, trailers: readonly Header[]): Substituted {
    return cleanTrailers(this.#vault, host, trailers);
  }

  messages(place: MessagePlace): MessageFilter {
    return messageFilter(this.#vault, place);
  }

  decoys(host: string, location: string): DecoySearch {
    return new DecoyStream(this.#vault, host, location);
  }

  get seeksDecoys(): boolean {
    return this.#vault.hasDecoys;
  }

  /** The use of a decoy in an event whose bytes pass no filter. */
  decoyIn(event: Event): CredentialSubstitution | undefined {
    return decoyIn(this.#vault, event);
  }

  guards({ host, path }: Omit<BodyPlace, "direction">): boolean {
    const name = plainHost(host);
    if (this.#sent.has(name) || this.#registries.isRealm({ host, path })) return true;
    const { catalogue } = this.#vault;
    const endpoint = catalogue.tokenAnswerOf(name, path);
    if (endpoint !== undefined && this.#vault.takes(endpoint)) return true;
    const owner = catalogue.ownerOf(name);
    return owner === undefined ? this.#vault.isBound(name) : this.#vault.holds(owner);
  }

  answer(host: string, headers: Header[]): Substituted {
    if (this.#accounts === "stored") this.#registries.challenge(host, headers);
    if (!this.#sent.has(host) && !this.#signed.has(host)) return { headers, substitutions: [] };
    return new Capture(this.#vault, host).headers(headers);
  }

  answers({ host, path }: Pick<BodyPlace, "host" | "path">): boolean {
    return this.#host.answers(host, path);
  }

  servesMetadata(cloud?: "gcp" | "azure"): boolean {
    this.#vault.poll();
    const found = identitiesOf(this.#vault);
    return (cloud ? found[cloud] : [...found.gcp, ...found.azure]).length > 0;
  }

  async attend(request: AttendedRequest): Promise<HostAnswer | undefined> {
    if (plainHost(request.host) === METADATA_HOST) {
      const { metadataAnswer } = await import("./cloud/metadata.ts");
      return metadataAnswer(identitiesOf(this.#vault), request);
    }
    return await this.#host.attend(request);
  }

  refused(substitutions: readonly CredentialSubstitution[]): void {
    this.#host.refused(substitutions.map(({ credential_ref }) => credential_ref));
  }

  bodies(place: BodyPlace): BodyFilter | undefined {
    const host = plainHost(place.host);
    if (place.direction === "response") {
      // An error of a service repeats the signed fields; its other answers may be
      // parts, which cannot be searched.
      const mayRepeat = (place.status ?? 0) >= ERROR_STATUS;
      const finder = () => this.#sent.finderOf(host) ?? (mayRepeat ? this.#signed.finderOf(host) : undefined);
      const filter = responseBody(this.#vault, place, finder);
      return this.#registries.isRealm(place) ? this.#registries.reading(place, filter) : filter;
    }
    const onSent = (ref: string) => this.#sent.record(host, new Set([ref]));
    const filter = requestBody(this.#vault, place, onSent);
    return this.#accounts === "stored"
      ? storedTokenBody(this.#vault, place, filter, this.#registries) ?? filter
      : filter;
  }

  scrubFields(headers: readonly Header[]): readonly Header[] {
    if (!headers.some(([name, value]) => this.#holdsSecret(name) || this.#holdsSecret(value))) return headers;
    return headers.map(([name, value]): Header => [this.scrub(name), this.scrub(value)]);
  }

  /**
   * Replaces known secrets with refs and redacts text shaped like a secret.
   *
   * @param isCut more text followed: the beginning of a secret at the end is removed too
   */
  scrub(text: string, isCut = false): string {
    const { matches, partial } = this.#vault.finder.scan(text);
    const length = isCut ? partial : text.length;
    let out = "";
    let at = 0;
    for (const { kind, start, end, ref } of matches) {
      if (kind === "ref") continue;
      out += text.slice(at, start) + (ref ?? REDACTED);
      at = end;
    }
    return (at < length ? out + text.slice(at, length) : out).replace(JWT, REDACTED);
  }

  /**
   * Scrubs every text of a value, also a secret that is split over several; the
   * value itself when it has none.
   */
  scrubValue<T>(value: T): T {
    const { finder } = this.#vault;
    // Only a known secret can be split over texts.
    const isUnclean = finder.knowsSecrets
      ? this.#holdsAny(joinedTexts(value))
      : someText(value, (text) => text.length >= finder.least && this.#holdsAny(text));
    if (!isUnclean) return value;
    const texts = textsOf(value);
    const whole = texts.join("\n");
    const matches = finder.find(whole).filter(({ kind }) => kind !== "ref");
    if (matches.length === 0 && !holdsJwt(whole)) return value;
    const clean = scrubTexts(texts, matches).map((text) => text.replace(JWT, REDACTED));
    return withTexts(value, clean.values()) as T;
  }

  /** Environment variables for a guest: refs of the credentials added for these providers, never secrets. */
  guestEnv(providers: Iterable<Provider> = this.#providers): Record<string, string> {
    return guestEnvOf(this.#vault, providers);
  }

  /**
   * Files by which agents of the guest are logged in, where the credential of a
   * provider added last is a subscription.
   */
  guestFiles(providers: Iterable<Provider> = this.#providers): GuestLoginFile[] {
    return [...providers].flatMap((provider) => {
      if (provider === SIGNING) return signingFiles(this.#vault);
      const entry = this.#vault.chosen(provider)?.entry;
      const found = entry?.subscription &&
        this.#logins.find({ login: entry.subscription.login, label: entry.label });
      return found ? guestFiles(this.#logins.providerOf(found.login).facts, found) : [];
    });
  }

  /**
   * Variables for a program that starts in a running guest: credentials that were added since its boot, or
   * took the place of others. Variables that a person set stay.
   *
   * @param boot variables of the guest's boot
   */
  freshEnv(boot: Readonly<Record<string, string>>): Record<string, string> {
    const isOurs = (value: string | undefined) =>
      value === undefined || isGitHelper(value) || isSigningProgram(value) ||
      REF.test(value) && this.#vault.get(value)?.entry.source !== "captured";
    const keepsGit = boot.GIT_CONFIG_COUNT !== undefined && !isOurs(boot.GIT_CONFIG_VALUE_0);
    const keepsAws = [AWS_ID, AWS_SECRET].some((name) => boot[name] !== undefined) &&
      !isPlaceholderId(boot[AWS_ID] ?? "");
    const isFree = (name: string) =>
      name.startsWith("GIT_CONFIG_")
        ? !keepsGit
        : name === AWS_ID || name === AWS_SECRET
        ? !keepsAws
        : isOurs(boot[name]);
    return Object.fromEntries(
      Object.entries(this.guestEnv()).filter(([name, value]) => boot[name] !== value && isFree(name)),
    );
  }

  /**
   * The key by which this VM's git signs commits and tags.
   *
   * @param ref only this one
   * @throws {SbxError} `credential.denied`
   */
  signingKey(ref?: string): SigningKey {
    return signingKeyOf(this.#vault, ref);
  }

  /** Replaces the secrets of a `.env` file with refs. */
  captureDotEnv(text: string): { text: string; substitutions: CredentialSubstitution[] } {
    return captureDotEnv(this.#vault, text);
  }

  /**
   * Secret behind a ref for a request of the host itself, to a remote MCP server
   * (docs/design/contracts/09-credentials.md §9). The ref in the server's definition grants its use; the
   * destination is checked as for guests. Plain http is allowed only to servers on this machine.
   *
   * @param login the login that the ref belongs to; the token of a login is granted to it only
   * @throws {CredentialDenied} with the substitutions for the ledger
   */
  async use(ref: string, url: URL, login?: LoginPlace): Promise<HostUse> {
    await this.refresh();
    const isHere = url.protocol === "http:" && LOOPBACK.test(url.hostname);
    const to = {
      scheme: isHere ? "https" : url.protocol.slice(0, -1),
      host: url.hostname,
      port: Number(url.port) || (url.protocol === "https:" ? 443 : 80),
      isHost: true,
      ...(login && { login }),
    };
    const injection = new Injection(this.#vault, to);
    const { secret, signal } = injection.use(
      ref,
      "authorization",
      (provider, catalogue) => catalogue.allowsHeader(provider, "authorization"),
    );
    return { secret, released: signal, substitutions: injection.substitutions };
  }

  /** Signal that aborts when the credential is revoked; `undefined` for an unknown ref. */
  released(ref: string): AbortSignal | undefined {
    return this.#vault.get(ref)?.controller.signal;
  }

  /**
   * Takes the current secrets of credentials whose programs the service runs, by ref.
   *
   * @returns refs that are not such credentials of the store
   */
  async provide(secrets: ProvidedSecrets): Promise<string[]> {
    await this.refresh();
    return Object.entries(secrets).filter(([ref, each]) => !this.#vault.provide(ref, each)).map(([ref]) =>
      ref
    );
  }

  /** Reads changes by other processes and opens new secrets. */
  refresh(): Promise<void> {
    return this.#vault.refresh();
  }

  /** Waits until captured credentials are in the store. */
  flush(): Promise<void> {
    return this.#vault.flush();
  }

  close(): Promise<void> {
    return this.#vault.close();
  }

  #holdsSecret(text: string): boolean {
    return this.#vault.isUnclean(text) || text.includes("eyJ");
  }

  /** True for a secret, text shaped like one, or a ref. */
  #holdsAny(text: string): boolean {
    return this.#vault.finder.holds(text) || holdsJwt(text);
  }
}

function holdsJwt(text: string): boolean {
  JWT.lastIndex = 0;
  return JWT.test(text);
}

// Environment variables of guests, and secrets in `.env` files (docs/design/contracts/09-credentials.md §9).

/**
 * Variables that make a guest's clients use refs, from the credential of each provider added last.
 *
 * @returns names and refs, never a secret; for git a helper that returns the ref
 */
function guestEnvOf(vault: Vault, providers: Iterable<Provider>): Record<string, string> {
  const env: Record<string, string> = {};
  const git: [key: string, value: string][] = [];
  const overSsh = new Set(sshPlaces(vault).map((place) => place.split(":")[0]));
  for (const provider of providers) {
    const credential = vault.chosen(provider);
    const definition = credential && vault.catalogueOf(credential).find(provider);
    if (definition?.commits) {
      git.push(...signingSettings(vault));
      continue;
    }
    if (!credential || !definition) continue;
    // An agent reads the tokens of a subscription from its own file.
    if (credential.entry.subscription) continue;
    if (definition.signed_hosts) {
      const placeholder = vault.placeholderOf(credential);
      if (placeholder) Object.assign(env, { [AWS_ID]: placeholder.id, [AWS_SECRET]: placeholder.secret });
      continue;
    }
    Object.assign(env, cloudEnv(credential.entry));
    for (const name of namesFor(definition, credential.secret)) env[name] ??= credential.entry.ref;
    git.push(...gitSettings(definition, credential.entry.hosts, overSsh));
  }
  if (git.length > 0) env.GIT_CONFIG_COUNT = String(git.length);
  git.forEach(([key, value], at) => {
    env[`GIT_CONFIG_KEY_${at}`] = key;
    env[`GIT_CONFIG_VALUE_${at}`] = value;
  });
  return env;
}

/** Beginning of every helper that a guest has for git. */
const GIT_HELPER = '!f() { test "$1" = get && echo username=';

function isGitHelper(value: string): boolean {
  return value.startsWith(GIT_HELPER);
}

/** Beginnings of a host's addresses for SSH; the port of its web server is another one. */
function sshPrefixes(host: string, overSsh: ReadonlySet<string>): string[] {
  const [name] = host.split(":");
  if (overSsh.has(name)) return [];
  return [`git@${name}:`, `ssh://git@${name}/`, `ssh://git@${name}:22/`];
}

/**
 * Settings of git: it asks a helper for user and password and gets the ref, which the broker finds inside
 * Basic; addresses for SSH, for which a guest has no key, lead to the same repositories over https.
 *
 * @param overSsh hosts that the host of the VM has an SSH key for
 */
function gitSettings(
  { git, env = [] }: Definition,
  named: readonly string[] = [],
  overSsh: ReadonlySet<string>,
): [string, string][] {
  if (!git) return [];
  const helper = `${GIT_HELPER}${git.user} && echo "password=$${env[0]}"; }; f`;
  return [...git.hosts, ...named].flatMap((host): [string, string][] => [
    [`credential.https://${host}.helper`, helper],
    ...sshPrefixes(host, overSsh).map((prefix): [string, string] => [
      `url.https://${host}/.insteadOf`,
      prefix,
    ]),
  ]);
}

/**
 * Variable names for a secret. Anthropic's clients distinguish OAuth tokens from API keys by the variable.
 */
function namesFor({ id, env = [] }: Definition, secret = ""): readonly string[] {
  if (id !== "anthropic") return env;
  return [isClientToken(secret) ? "CLAUDE_CODE_OAUTH_TOKEN" : "ANTHROPIC_API_KEY"];
}

/**
 * Line of a `.env` file: the part before the value, the quote, and the value. Programs differ on `#` in a
 * word, so all of it is the value.
 */
const LINE = /^(\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*)(?:(["'`])([^"'`]*)\3|([^\s"'`]+))/;

/**
 * Provider of the secret in a variable, by the variable's name; `undefined` where only its shape can tell.
 */
function providerOfVariable(vault: Vault, name: string, value: string): Provider | undefined {
  const provider = vault.catalogue.providerOfEnv(name);
  if (provider === undefined || vault.takes(provider)) return provider;
  return vault.catalogue.shapes.isLoose(value) ? provider : undefined;
}

/**
 * Replaces the secrets of a `.env` file with refs: tokens, and values of variables read by providers'
 * clients.
 */
function captureDotEnv(
  vault: Vault,
  text: string,
): { text: string; substitutions: CredentialSubstitution[] } {
  const capture = new Capture(vault, "");
  const lines = text.split("\n").map((line) => {
    const [whole, before, name, quote = "", ...values] = LINE.exec(line) ?? [];
    const value = values.find((text) => text !== undefined) ?? "";
    const provider = name === undefined ? undefined : providerOfVariable(vault, name, value);
    if (whole === undefined || provider === undefined || !isSecret(value) || REF.test(value)) {
      return capture.text(line, ".env");
    }
    const ref = capture.take(provider, value, `.env ${name}`);
    return `${before}${quote}${ref}${quote}${capture.text(line.slice(whole.length), ".env")}`;
  });
  return { text: lines.join("\n"), substitutions: capture.substitutions };
}
