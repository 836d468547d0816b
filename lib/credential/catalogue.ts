/**
 * The catalogue of providers: which one owns a host, and the places where its keys may be sent
 * (docs/design/contracts/09-credentials.md §9, "Providers").
 */
import { memoize } from "../base/memo/mod.ts";
import { lenientPath } from "../base/url/mod.ts";
import { plainHost } from "../base/address/mod.ts";
import { type Definition, DEFINITIONS, type Provider } from "./provider.ts";
import { TokenShapes } from "./token.ts";

const CLOUDS = DEFINITIONS.filter(({ cloud_hosts }) => cloud_hosts).map(({ id }) => id);
/** Any form of a header's value. */
const ANY = "*";

/** Form of a key in a header: a scheme in lower case, `bare`, or the half of a Basic header. */
export type Form = string;

/** One provider, prepared for the questions of each request. */
interface Entry {
  definition: Definition;
  /** header → forms */
  headers: ReadonlyMap<string, ReadonlySet<Form>>;
  queries: ReadonlySet<string>;
  /** texts before a key in a path */
  paths: readonly string[];
}

/** Providers, their hosts and places. */
export class Catalogue {
  static readonly BUILT_IN: Catalogue = new Catalogue([]);

  readonly #entries = new Map<Provider, Entry>();
  readonly #owners = new Map<string, Provider>();
  readonly #patterns: { id: Provider; test: (host: string) => boolean }[] = [];
  readonly #tokens = new Map<string, Provider>();
  readonly #tokenHosts: ReadonlySet<string>;
  readonly #env = new Map<string, Provider>();
  /** headers whose value is a secret in any shape */
  readonly headers: ReadonlySet<string>;
  /** query parameters whose value is a secret in any shape */
  readonly queries: ReadonlySet<string>;
  /** shapes of the keys of all of them */
  readonly shapes: TokenShapes;

  /**
   * @param added providers in place of the built-in ones of their ids; a host of
   * another built-in one is not theirs
   */
  constructor(added: readonly Definition[]) {
    const builtIn = DEFINITIONS.filter(({ id }) => !added.some((each) => each.id === id));
    for (const definition of [...builtIn, ...added]) {
      this.#entries.set(definition.id, entryOf(definition));
      for (const host of definition.hosts) {
        if (host.includes("*")) this.#patterns.push({ id: definition.id, test: hostTest(host) });
        else if (!this.#owners.has(host)) this.#owners.set(host, definition.id);
      }
      for (const place of definition.token_endpoints ?? []) this.#tokens.set(place, definition.id);
      for (const name of definition.env ?? []) {
        if (!this.#env.has(name)) this.#env.set(name, definition.id);
      }
    }
    const entries = [...this.#entries.values()];
    this.shapes = added.some(({ keys }) => keys)
      ? new TokenShapes(entries.map(({ definition }) => definition))
      : TokenShapes.BUILT_IN;
    this.headers = new Set(entries.flatMap(({ headers }) => [...headers.keys()]));
    this.queries = new Set(entries.flatMap(({ queries }) => [...queries]));
    this.#tokenHosts = new Set([...this.#tokens.keys()].map((place) => place.split("/")[0]));
  }

  find(id: Provider): Definition | undefined {
    return this.#entries.get(id)?.definition;
  }

  /** The provider that a word of a command line names, by its id or an alias. */
  named(word: string): Definition | undefined {
    return this.find(word) ?? DEFINITIONS.find(({ aliases }) => aliases?.includes(word));
  }

  /** Provider that owns a host by name; hosts that a credential names are bound to it instead. */
  readonly ownerOf: (host: string) => Provider | undefined = memoize((host: string) => {
    const name = plainHost(host);
    const owner = this.#owners.get(name) ?? this.#patterns.find(({ test }) => test(name))?.id;
    return owner && this.find(owner)?.never?.some((never) => isNever(name, never)) ? undefined : owner;
  });

  /** True for a provider whose credentials may name hosts. */
  namesHosts(id: Provider): boolean {
    return this.find(id)?.named_hosts !== undefined;
  }

  /** True for a provider whose keys sign requests and are not sent. */
  signs(id: Provider): boolean {
    return this.find(id)?.signed_hosts !== undefined;
  }

  /** True for a cloud that tokens of this provider go to, whoever owns the host. */
  isCloudHost(id: Provider, host: string): boolean {
    const name = plainHost(host);
    return this.find(id)?.cloud_hosts?.some((pattern) => hostTest(pattern)(name)) ?? false;
  }

  /** Cloud that a host belongs to, which no provider owns alone. */
  cloudOf(host: string): Provider | undefined {
    return CLOUDS.find((id) => this.isCloudHost(id, host));
  }

  /** True for a provider whose keys are taken from every VM, and used by none without a grant. */
  isAlways(id: Provider): boolean {
    return this.find(id)?.always === true;
  }

  /**
   * Tests whether a secret of the provider may be sent in this header.
   *
   * @param form its form in the value; absent: any that the provider has
   */
  allowsHeader(id: Provider, header: string, form?: Form): boolean {
    const forms = this.#entries.get(id)?.headers.get(header.toLowerCase());
    return forms !== undefined && (form === undefined || forms.has(ANY) || forms.has(form));
  }

  /** Tests whether a secret of the provider may be sent in this query parameter. */
  allowsQuery(id: Provider, parameter: string): boolean {
    return this.#entries.get(id)?.queries.has(parameter) ?? false;
  }

  /** Tests whether a secret of the provider may follow this beginning of a path. */
  allowsPath(id: Provider, before: string): boolean {
    return this.#entries.get(id)?.paths.includes(before) ?? false;
  }

  /** Provider whose OAuth token endpoint this is, exactly: a request may carry a secret there. */
  tokenEndpointOf(host: string, path: string): Provider | undefined {
    return this.#tokens.get(plainHost(host) + path);
  }

  /**
   * Provider whose OAuth token endpoint a server may take this for, however the path is
   * written: its answer may hold tokens.
   */
  tokenAnswerOf(host: string, path: string): Provider | undefined {
    const name = plainHost(host);
    if (!this.#tokenHosts.has(name)) return undefined;
    const place = name + lenientPath(path).toLowerCase();
    return this.#tokens.entries().find(([token]) => isBelow(place, token))?.[1];
  }

  /**
   * Tests whether the token of a subscription may go to this path: to models, and to nothing that ends a
   * login, makes a key or shares an account's content.
   *
   * @param path without its query; a path that servers read in several ways does not count
   */
  carriesSubscription(id: Provider, host: string, path: string | undefined): boolean {
    if (path === undefined || lenientPath(path) !== path) return false;
    const place = plainHost(host) + path;
    return this.find(id)?.oauth?.uses.some((use) =>
      place === use || place.startsWith(/[:/]$/.test(use) ? use : `${use}/`)
    ) ?? false;
  }

  /** Environment variables of a provider's clients. */
  envNamesOf(id: Provider): readonly string[] {
    return this.find(id)?.env ?? [];
  }

  /** Provider whose clients read an environment variable. */
  providerOfEnv(name: string): Provider | undefined {
    return this.#env.get(name);
  }
}

function entryOf(definition: Definition): Entry {
  const { basic = [], queries = [], paths = [] } = definition;
  const headers = new Map<string, Set<Form>>();
  const allow = (name: string, form: Form) => headers.set(name, (headers.get(name) ?? new Set()).add(form));
  for (const place of definition.headers ?? []) {
    const [name, scheme = ANY] = place.split(": ");
    allow(name, scheme);
  }
  for (const half of basic) allow("authorization", `basic ${half}`);
  return {
    definition,
    headers,
    queries: new Set(queries),
    paths: paths.map((path) => path.split("{key}")[0]),
  };
}

/** The place itself, or with anything but a longer word behind it: `token/`, `token.json`, `token,x`. */
function isBelow(place: string, token: string): boolean {
  return place.startsWith(token) && !/^[a-z0-9_-]/.test(place.slice(token.length));
}

// Patterns of hosts.

/** Test of a pattern: `*` is one label or a part of it; alone it is any host. */
export function hostTest(pattern: string): (host: string) => boolean {
  if (pattern === "*") return () => true;
  if (!pattern.includes("*")) return (host) => host === pattern;
  const expression = new RegExp(`^${pattern.split("*").map(RegExp.escape).join("[a-z0-9-]{1,63}")}$`);
  return (host) => expression.test(host);
}

/** True for two patterns that a host may match both. */
function overlap(a: string, b: string): boolean {
  const [labels, others] = [a.split("."), b.split(".")];
  return labels.length === others.length && labels.every((label, at) => {
    const other = others[at];
    if (label.includes("*") && other.includes("*")) return true;
    return hostTest(label)(other) || hostTest(other)(label);
  });
}

/** True for a pattern that may match a host where third parties read requests. */
function isNever(host: string, never: string): boolean {
  if (!never.startsWith("*.")) return overlap(host, never);
  const domain = never.slice(2);
  return host === domain || host.endsWith(`.${domain}`);
}

/**
 * Provider that a host belongs to already, or whose customers' content it serves: no other may claim it.
 *
 * @param host a host, or a pattern of hosts
 */
export function claimantOf(host: string, definitions: readonly Definition[]): Definition | undefined {
  return definitions.find(({ hosts, never = [] }) =>
    hosts.some((each) => overlap(each, host)) || never.some((each) => isNever(host, each))
  );
}
