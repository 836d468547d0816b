/**
 * Providers of credentials (docs/design/contracts/09-credentials.md §9):
 * providers.json has the facts about each.
 */
import PROVIDERS_JSON from "./providers.json" with { type: "json" };

/** Id of a provider: one of {@linkcode PROVIDERS}, or an added one. */
export type Provider = string;

/** Characters of a key behind its prefix. */
export type KeyChars = "alnum" | "word" | "word-" | "base64" | "base64url" | "base64_";

/**
 * Shape of keys: a prefix, and a rest of so many such characters. A pattern of its own could run for ever.
 */
export interface KeyShape {
  prefix: string;
  chars: KeyChars;
  /** fewest and most characters of the rest */
  min: number;
  max: number;
  /** the rest has a digit: hyphenated words can follow the prefix too */
  digit?: boolean;
  /** a token of an OAuth client, no API key */
  token?: boolean;
  /** other providers' keys have this shape too */
  loose?: boolean;
}

/**
 * Rest of a key of an added provider: with a digit, as hyphenated words of other
 * texts may follow its prefix too.
 */
const ADDED_SHAPE = { chars: "word-", min: 16, max: 255, digit: true } as const;

/**
 * A file of a guest: JSON in which `{name}` stands for a fact of the login, and `$jwt` for an unsigned token.
 */
export interface GuestFile {
  /** below the home folder of the guest's user */
  path: string;
  content: unknown;
}

/**
 * How a person logs in at a provider with a subscription, as its own public client does. Addresses are https;
 * a way that is absent is one that sbx does not offer there.
 */
export interface OauthFacts {
  /** word of `sbx login` */
  login: string;
  title: string;
  /** public client, with its version, in which the facts were read */
  source: string;
  /** absent: it is not known how it names itself */
  issuer?: string;
  authorize?: string;
  /** RFC 8628 */
  device?: string;
  /** why there is no device code */
  no_device?: string;
  token: string;
  client_id: string;
  /** part of a public client, which its package shows to everyone (RFC 8252, 8.5); no secret */
  published_secret?: string;
  scopes: string[];
  /** further parameters of the authorization */
  params?: Record<string, string>;
  /** requests to the token endpoint are JSON; absent: forms */
  body?: "json";
  /** place on this machine to which the browser comes back; absent port: any that is free */
  redirect?: { host: "localhost" | "127.0.0.1"; port?: number; path: string };
  /** page that shows a person the code */
  paste?: string;
  /** where the token of the login gets the short-lived one for requests */
  exchange?: string;
  /** where the account of a token is read, of a provider whose answers do not name it */
  account_url?: string;
  /** place of the account's id in an answer; `id_token` leads into the ID token */
  account: string[];
  /** places of further facts, none secret, that files of guests need */
  keep?: Record<string, string[]>;
  /** `host/path` below which requests may carry the token: nothing there ends a login or makes a key */
  uses: string[];
  guest: GuestFile[];
}

/** Facts about a provider. Hosts are lower case; `*` stands for one label or a part of it. */
export interface Definition {
  id: Provider;
  title: string;
  /** page that describes how its API authenticates */
  docs: string;
  /** day on which a source of hosts, places and variables was read; absent: general knowledge */
  checked?: string;
  /** hosts where no third party reads a request */
  hosts: string[];
  /** hosts that a credential may name besides; `*` alone stands for any */
  named_hosts?: string[];
  /** hosts whose requests are signed with its keys, and hold none: `**.` stands for any number of labels */
  signed_hosts?: string[];
  /** hosts of a cloud where tokens of its identities go; other providers may own some of them */
  cloud_hosts?: string[];
  /** hosts that others serve content from: no key goes there; `*.` stands for any number of labels */
  never?: string[];
  /** `NAME`, in any form, or `NAME: SCHEME`; the scheme `bare` is the key alone */
  headers?: string[];
  /** half of a Basic header that is the key */
  basic?: ("user" | "password")[];
  queries?: string[];
  /** beginnings of paths, `{key}` in the place of the key */
  paths?: string[];
  /** `host/path` of OAuth token endpoints, the only places whose bodies may carry a key */
  token_endpoints?: string[];
  /** variables from which clients read a key; the first is git's too */
  env?: string[];
  /** files in which clients keep a key */
  files?: string[];
  keys?: KeyShape[];
  /**
   * user that git sends with the key, and the hosts of repositories; hosts that a credential names count too
   */
  git?: { user: string; hosts: string[] };
  /** where it serves models: its name in events and prices, and the wire formats it speaks */
  models?: { provider: string; apis: string[] };
  /**
   * a database: its key is a password, which the host gives at this port by default and no request carries
   */
  database?: { port: number };
  /** SSH servers: its keys sign logins of the host at this port by default, and no request carries them */
  ssh?: { port: number };
  /** its keys sign commits and tags of git, and no request carries them */
  commits?: boolean;
  /** other words for it on the command line */
  aliases?: string[];
  /** its keys are taken from every VM, and no VM uses them without a grant */
  always?: boolean;
  /** how a person logs in with a subscription */
  oauth?: OauthFacts;
  /** ways of authenticating that the broker does not know */
  not_yet?: string;
}

/**
 * Hosts, places and variables of a provider that a person, a profile or corp
 * adds; as in {@linkcode Definition}.
 */
export type CustomProvider = Pick<Definition, "hosts" | "headers" | "basic" | "queries" | "paths" | "env"> & {
  /** beginnings by which its keys are known */
  prefixes?: string[];
};

/** Providers that every home knows. */
export const DEFINITIONS = PROVIDERS_JSON as readonly Definition[];
export const PROVIDERS: readonly Provider[] = DEFINITIONS.map(({ id }) => id);
/** Id of a provider, also of one that is added. */
export const PROVIDER_ID = /^[a-z][a-z0-9-]{0,31}$/;

/** True for the id of a provider that every home knows. */
export function isProvider(name: string): boolean {
  return PROVIDERS.includes(name);
}

/** An added provider in the form of a built-in one. */
export function definitionOf(id: Provider, custom: CustomProvider): Definition {
  const { prefixes, ...places } = custom;
  const keys = prefixes?.map((prefix): KeyShape => ({ prefix, ...ADDED_SHAPE }));
  return { id, title: id, docs: "", ...places, ...(keys && { keys }) };
}
