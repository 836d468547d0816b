/** Entries of the credential store; only the sealed part is secret. */
import { SbxError } from "../base/error/mod.ts";
import { isObject, objectOf } from "../base/object/mod.ts";
import { canonicalJson } from "../base/json/mod.ts";
import type { CloudTerms } from "./cloud/terms.ts";
import type { Confinement } from "./confine.ts";
import { type CustomProvider, isProvider, type Provider, PROVIDER_ID } from "./provider.ts";
import { REF, refOf } from "./ref.ts";
import { PUBLIC_MAX, type SigningTerms } from "../sign/mod.ts";

/** Most credentials of one store, including revoked ones; the oldest revoked ones are dropped first. */
export const ENTRIES_MAX = 1000;
/** Most characters of a label. */
export const LABEL_MAX = 128;
/** Most hosts and VMs of one credential. */
const LIST_MAX = 64;

/** Part of a login: the token for requests, the one that renews it, the secret of the client. */
export type LoginPart = "access" | "refresh" | "client";

/** The login that a secret belongs to (docs/design/contracts/09-credentials.md §9, "Logins"). */
export interface LoginPlace {
  profile: string;
  /** id of the MCP server in the profile or corp */
  server: string;
  /** URL of the server; another one is another login */
  url: string;
}

/** Facts for renewing a login, and its limits; none is secret. */
export interface LoginTerms {
  /** of the authorization server */
  issuer: string;
  token_endpoint: string;
  /** authentication methods of the token endpoint; empty: the server names none */
  auth_methods: string[];
  client_id: string;
  /** ref of the client's secret, of a client that was registered by hand */
  client_ref?: string;
  /** RFC 8707 */
  resource?: string;
  scope?: string;
  /** scopes that the server asked for since */
  wanted_scope?: string;
  /** Unix `ms` */
  expires_at?: number;
}

/** Login of a stored secret; the access token has the terms too. */
export interface StoredLogin extends LoginPlace {
  part: LoginPart;
  terms?: LoginTerms;
}

/** Where a secret comes from that is not stored. */
export interface SecretOrigin {
  /** program of the host and its arguments, none of them secret */
  program?: string[];
  /** variable of the service */
  env?: string;
  /** identity at a cloud; the sealed secret is its key then, with which tokens are obtained */
  cloud?: CloudTerms;
  /** rights of the program; absent: all of the service's user */
  confine?: Confinement;
  /** time for which a secret is used whose end is unknown, in `s`; default 15 minutes */
  ttl_s?: number;
}

/** A secret, and the beginning and the end of its use in Unix `ms`. */
export interface Obtained {
  secret: string;
  obtained_at: number;
  expires_at: number;
}

/** A subscription's login of the host (docs/design/contracts/09-credentials.md §9, "Subscriptions"). */
export interface StoredSubscription {
  /** word of `sbx login` */
  login: string;
  /** `access`: for requests of VMs; `refresh`: renews it, and leaves the host for nothing else */
  part: "access" | "refresh";
  /** of the access token; none secret */
  terms?: SubscriptionTerms;
}

export interface SubscriptionTerms {
  account?: string;
  scope?: string;
  /** Unix `ms` */
  expires_at?: number;
  /** Unix `ms` of the login or its last renewal */
  renewed_at: number;
  /** what files of guests say of it */
  facts: Record<string, string>;
  /** refs of the refresh tokens before, the last first */
  used?: string[];
  /** why it was not renewed, and when, in Unix `ms`; `is_over`: a person has to log in again */
  problem?: { text: string; at: number; is_over: boolean };
}

/** A login that a guest made, in the entry of the captured token that renews it; none is secret. */
export interface OfferedLogin {
  /** word of `sbx login` */
  login: string;
  /** ref of the token for requests, of the same answer */
  access: string;
  /** as the provider's answer to the guest names it */
  account?: string;
}

/**
 * Terms of a database's password (docs/design/contracts/09-credentials.md §9, "Databases"); none is secret.
 */
export interface DatabaseTerms {
  /** the only user that it is for */
  user?: string;
  /** the only database that it is for */
  name?: string;
  /** the server is reached without TLS: on loopback only */
  tls?: "off";
  /** the server may ask for it as an MD5 hash */
  md5?: true;
}

/** Terms of an SSH key (docs/design/contracts/09-credentials.md §9, "SSH"); none is secret. */
export interface SshTerms {
  /** as in `authorized_keys` */
  public_key: string;
  /** socket of the agent that has the private key; the secret is a random text then */
  agent?: string;
  /** where it logs in, and as whom */
  servers: SshServer[];
}

export interface SshServer {
  /** `host:port` */
  host: string;
  user: string;
  /** the only keys that the server may have */
  host_keys: string[];
}

/** Terms of a login that a VM is lent for a build (docs/design/contracts/09-credentials.md §9, "Store"). */
export interface LoanTerms {
  /** ISO 8601; renewed while the build goes on */
  until: string;
  /** its purpose: two builds in one VM have loans of their own; absent in stores of older versions */
  id?: string;
  /** the only path of its hosts that it is sent to */
  path?: string;
}

/** One credential in the store's file. */
export interface StoredEntry {
  /** docs/design/contracts/09-credentials.md §9 */
  ref: string;
  provider: Provider;
  label?: string;
  /** destinations of an `mcp` credential, `host` or `host:port` */
  hosts?: string[];
  /**
   * of a provider that was added: all that its key is sent to, whatever another profile says of the provider
   */
  custom?: CustomProvider;
  /** its secret is obtained on the host; a random text is sealed, of which its ref is made */
  origin?: SecretOrigin;
  /** ISO 8601 */
  created_at: string;
  /** `added` by a person, or `captured` from a guest's traffic */
  source: "added" | "captured";
  /** a token of an OAuth client that is no API key; not all programs take it */
  kind?: "token";
  /** any use raises an alarm */
  decoy?: true;
  /** a token of an MCP server; only the host uses it, for this server */
  login?: StoredLogin;
  /** a token of a subscription; its ref is no hash of it, and stays when it is renewed */
  subscription?: StoredSubscription;
  /** of a captured token: the login of a subscription that it renews */
  offer?: OfferedLogin;
  /** of a database's password */
  database?: DatabaseTerms;
  /** of an SSH key */
  ssh?: SshTerms;
  /** of a key that signs commits; where the key is elsewhere, a random text is sealed */
  signing?: SigningTerms;
  /** it ends by itself */
  loan?: LoanTerms;
  /** ids of the VMs it was captured from or added for; only they may use it until a person adds it for all */
  vms?: string[];
  /** ISO 8601; a revoked entry has no secret */
  revoked_at?: string;
  /** the secret: base64 of nonce and AES-256-GCM ciphertext, bound to the rest of the entry */
  sealed?: string;
}

/** True for a credential that a person added for some VMs: no other one uses it or takes it for its own. */
export function isForVms({ source, vms }: Pick<StoredEntry, "source" | "vms">): boolean {
  return source === "added" && vms !== undefined;
}

/** True for a loan whose time is over: nothing uses it, and the next change of the store removes it. */
export function isOver({ loan }: Pick<StoredEntry, "loan">, now = Date.now()): boolean {
  return loan !== undefined && !(now < Date.parse(loan.until));
}

/** Location of a store's key. */
export interface KeyPlace {
  in: "keyring" | "file";
  /** distinguishes a wrong key from a damaged file; reveals nothing about the key */
  id: string;
}

/** The store's file. */
export interface StoreFile {
  version: 1;
  key: KeyPlace;
  entries: StoredEntry[];
}

/** Additional authenticated data of a secret: a modified entry does not open. */
function additionalDataOf(
  {
    ref,
    provider,
    hosts,
    custom,
    origin,
    created_at,
    source,
    decoy,
    vms,
    login,
    subscription,
    offer,
    database,
    ssh,
    signing,
    loan,
  }: StoredEntry,
): Uint8Array<ArrayBuffer> {
  const bound = {
    ...{ ref, provider, hosts, created_at, source, decoy, vms },
    ...(login && { login }),
    ...(custom && { custom }),
    ...(origin && { origin }),
    ...(subscription && { subscription }),
    ...(offer && { offer }),
    ...(database && { database }),
    ...(ssh && { ssh }),
    ...(signing && { signing }),
    ...(loan && { loan }),
  };
  return new TextEncoder().encode(canonicalJson(bound));
}

/**
 * Parses the text of a store's file.
 *
 * @throws {SbxError} `credential.store_corrupt`: names the problem, never the content
 */
export function parseStore(text: string, path: string): StoreFile {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw corruptError(path, "is not valid JSON");
  }
  const { version, key, entries } = objectOf(value);
  const place = objectOf(key);
  if (version !== 1) throw corruptError(path, "has a version that this sbx does not support");
  if ((place.in !== "keyring" && place.in !== "file") || typeof place.id !== "string") {
    throw corruptError(path, "does not name the location of its key");
  }
  if (!Array.isArray(entries) || entries.length > ENTRIES_MAX || !entries.every(isEntry)) {
    throw corruptError(path, "contains an invalid credential");
  }
  return { version, key: { in: place.in, id: place.id }, entries };
}

export function corruptError(path: string, problem: string): SbxError {
  return new SbxError(
    "credential.store_corrupt",
    `the credential store ${path} ${problem}; none of its credentials are used`,
    {
      hint:
        "restore it from a backup, or move it away and add the credentials again: sbx credentials add PROVIDER",
    },
  );
}

function isEntry(value: unknown): value is StoredEntry {
  const {
    ref,
    provider,
    label,
    hosts,
    custom,
    origin,
    created_at,
    source,
    decoy,
    login,
    vms,
    revoked_at,
    sealed,
    subscription,
    offer,
    database,
    ssh,
    signing,
    kind,
    loan,
  } = objectOf(value);
  return typeof ref === "string" && REF.test(ref) && typeof provider === "string" &&
    (isObject(custom)
      // One that a later sbx knows too stays an added one.
      ? PROVIDER_ID.test(provider) && isTextList(custom.hosts)
      : custom === undefined && isProvider(provider)) &&
    isOptional(origin, isObject) && isOptional(label, isText) && isOptional(hosts, isTextList) &&
    isOptional(vms, isTextList) &&
    isText(created_at) && (source === "added" || source === "captured") &&
    (decoy === undefined || decoy === true) && isOptional(login, isLogin) &&
    isOptional(subscription, isSubscription) && isOptional(offer, isOffer) &&
    isOptional(database, isDatabase) && isOptional(ssh, isSsh) &&
    isOptional(signing, isSigning) && isOptional(loan, isLoan) &&
    isOptional(kind, (text) => text === "token") && isOptional(revoked_at, isText) &&
    isOptional(sealed, (text) => typeof text === "string") &&
    (sealed === undefined) === (revoked_at !== undefined);
}

function isOptional(value: unknown, check: (value: unknown) => boolean): boolean {
  return value === undefined || check(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.length <= 1024;
}

/**
 * The seal proves the terms, whose shape needs no check here, as those of an added provider and of an origin.
 */
function isLogin(value: unknown): boolean {
  const { profile, server, url, part, terms } = objectOf(value);
  return [profile, server, part].every(isText) && typeof url === "string" && isOptional(terms, isObject);
}

function isSubscription(value: unknown): boolean {
  const { login, part, terms } = objectOf(value);
  return isText(login) && (part === "access" || part === "refresh") && isOptional(terms, isObject);
}

function isOffer(value: unknown): boolean {
  const { login, access, account } = objectOf(value);
  return isText(login) && typeof access === "string" && REF.test(access) && isOptional(account, isText);
}

function isDatabase(value: unknown): boolean {
  const { user, name, tls, md5 } = objectOf(value);
  return isObject(value) && isOptional(user, isText) && isOptional(name, isText) &&
    isOptional(tls, (text) => text === "off") && isOptional(md5, (flag) => flag === true);
}

function isSsh(value: unknown): boolean {
  const { public_key, agent, servers } = objectOf(value);
  return isLine(public_key) && isOptional(agent, isText) && Array.isArray(servers) &&
    servers.length <= LIST_MAX && servers.every((server) => {
      const { host, user, host_keys } = objectOf(server);
      return isText(host) && isText(user) && Array.isArray(host_keys) && host_keys.length <= LIST_MAX &&
        host_keys.every(isLine);
    });
}

/** A public key is longer than other texts. */
function isLine(value: unknown): boolean {
  return typeof value === "string" && value.length <= 8192;
}

function isSigning(value: unknown): boolean {
  const { format, from, public: key, fingerprint, emails, place } = objectOf(value);
  return [format, from, fingerprint].every(isText) && typeof key === "string" && key.length <= PUBLIC_MAX &&
    isOptional(emails, isTextList) && isOptional(place, isText);
}

function isLoan(value: unknown): boolean {
  const { until, id, path } = objectOf(value);
  return isText(until) && [id, path].every((each) => isOptional(each, isText));
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.length <= LIST_MAX && value.every(isText);
}

// Entries of the secrets of a login at an MCP server.

/** A secret of a login that is to be stored. */
export interface NewLoginSecret {
  part: LoginPart;
  secret: string;
  /** of the access token */
  terms?: LoginTerms;
}

export function isSamePlace(a: LoginPlace, b: LoginPlace): boolean {
  return a.profile === b.profile && a.server === b.server && a.url === b.url;
}

/**
 * The access token is for the server's host; what renews it is for no host, so that no request can carry it.
 */
export function loginEntry(place: LoginPlace, { part, secret, terms }: NewLoginSecret): StoredEntry {
  const { profile, server, url } = place;
  const { hostname, port, protocol } = new URL(url);
  return {
    ref: refOf("mcp", secret),
    provider: "mcp",
    label: `${part === "client" ? "client secret" : `${part} token`} of ${server} in ${profile}`.slice(
      0,
      128,
    ),
    hosts: part === "access" ? [`${hostname}:${port || (protocol === "http:" ? 80 : 443)}`] : [],
    created_at: new Date().toISOString(),
    source: "added",
    login: { profile, server, url, part, ...(terms && { terms }) },
  };
}

// AES-256-GCM encryption of one secret, bound to its entry.

/**
 * Length of a nonce, in `bytes`; random nonces are safe for far more than {@linkcode ENTRIES_MAX} secrets.
 */
const NONCE = 12;

/** Returns the entry with its secret sealed in it. */
export async function seal(key: CryptoKey, entry: StoredEntry, secret: string): Promise<StoredEntry> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE));
  const algorithm = { name: "AES-GCM", iv, additionalData: additionalDataOf(entry) };
  const ciphertext = new Uint8Array(
    await crypto.subtle.encrypt(algorithm, key, new TextEncoder().encode(secret)),
  );
  const sealed = new Uint8Array(NONCE + ciphertext.length);
  sealed.set(iv);
  sealed.set(ciphertext, NONCE);
  return { ...entry, sealed: sealed.toBase64() };
}

/** Opens the secret of an entry; `undefined` when it was sealed with another key or for another entry. */
export async function unseal(key: CryptoKey, entry: StoredEntry): Promise<string | undefined> {
  try {
    const sealed = Uint8Array.fromBase64(entry.sealed ?? "");
    const algorithm = {
      name: "AES-GCM",
      iv: sealed.subarray(0, NONCE),
      additionalData: additionalDataOf(entry),
    };
    return new TextDecoder().decode(
      await crypto.subtle.decrypt(algorithm, key, sealed.subarray(NONCE)),
    );
  } catch {
    return undefined;
  }
}
