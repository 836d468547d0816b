/**
 * Registries as registries.json describes them: requests for immutable artefacts, and the
 * documents that vouch for them.
 */
import REGISTRIES from "./registries.json" with { type: "json" };
import { type Algorithm, type Digest, digestOf } from "./digest.ts";

/** One kind of registry. */
interface Registry {
  /** names of the programs that use it, as `[cache]` of a profile has them */
  tools: string[];
  /** absent: any host, since the path has the digest */
  hosts?: string[];
  /** hosts of the same form may be added */
  mirrors?: boolean;
  artifacts: Pattern[];
}

/** Artefacts of one form. Named groups of `path` fill the URLs and texts of `vouched_by`. */
interface Pattern {
  /** regular expression; the group `digest` is the digest itself, in which slashes do not count */
  path: string;
  /** of the group `digest` */
  algorithm?: Algorithm;
  /** the query is a signature that the upstream has to accept before the cache answers */
  signed?: boolean;
  /** the artefact may come without TLS: documents that vouch for it never do */
  clear?: boolean;
  /** documents of the registry, the first that has a digest counts */
  vouched_by?: Source[];
}

/** A document that vouches for an artefact. The host fetches it, over TLS. */
export interface Source {
  /** path and query */
  url: string;
  /** absent: the artefact's own */
  host?: string;
  /** `apt`: release files and indexes of the suites below the URL */
  form: "json" | "json lines" | "text" | "go.sum" | "apt";
  /** fields that have to have these values */
  equals?: Record<string, string>;
  /** field with a URL whose path has to be the artefact's */
  path?: string[];
  /** field of the digest; absent: the text's first word */
  digest?: string[];
  digest_form: "sri" | "sha256" | "sha512" | "h1";
}

/** A document with the parts of the artefact's path that fill its texts. */
export interface FilledSource extends Source {
  values: Record<string, string>;
}

const registries = REGISTRIES as Record<string, Registry>;

/** Tools that `[cache]` of a profile may name, with the registry of each. */
export const TOOLS: ReadonlyMap<string, { registry: string; mirrors: boolean }> = new Map(
  Object.entries(registries).flatMap(([registry, { tools, mirrors = false }]) =>
    tools.map((tool) => [tool, { registry, mirrors }])
  ),
);

/** The part of a request that names an artefact. */
export interface ArtifactRequest {
  scheme: string;
  host: string;
  port: number;
  /** canonical path and query */
  target: string;
}

/** An immutable file of a registry. */
export interface Artifact {
  registry: string;
  /** key in the store: without the query, but with its mark where that is a signature */
  url: string;
  scheme: string;
  /** as in a URL */
  host: string;
  /** of the URL */
  path: string;
  /** that the path has; absent: a source vouches */
  digest?: Digest;
  sources: readonly FilledSource[];
  /** the upstream has to accept the request first */
  isSigned: boolean;
}

interface CompiledPattern extends Omit<Pattern, "path"> {
  registry: string;
  pattern: RegExp;
}

/** Finds the artefacts of the registries that a profile names. */
export class Registries {
  readonly #byHost = new Map<string, CompiledPattern[]>();
  readonly #ofAny: CompiledPattern[] = [];

  /** @param names registries, with hosts beyond their own */
  constructor(names: Readonly<Record<string, readonly string[]>>) {
    for (const [registry, mirrors] of Object.entries(names)) {
      const { hosts, artifacts } = registries[registry];
      const patterns = artifacts.map(({ path, ...rest }) => ({
        ...rest,
        registry,
        pattern: new RegExp(path),
      }));
      if (!hosts) this.#ofAny.push(...patterns);
      for (const host of new Set([...hosts ?? [], ...mirrors])) {
        this.#byHost.set(host, [...this.#byHost.get(host) ?? [], ...patterns]);
      }
    }
  }

  /** The artefact that a request is for; `undefined` for any other request. */
  match({ scheme, host, port, target }: ArtifactRequest): Artifact | undefined {
    const end = target.indexOf("?");
    const path = end < 0 ? target : target.slice(0, end);
    const candidates = this.#byHost.get(host);
    for (
      const { registry, pattern, algorithm, signed = false, clear = false, vouched_by = [] } of candidates
        ? [...candidates, ...this.#ofAny]
        : this.#ofAny
    ) {
      // A query may select another answer; only a signed one does not.
      if (signed !== end >= 0) continue;
      const groups = pattern.exec(path)?.groups;
      if (!groups) continue;
      // A document has to come over TLS; a digest in the path vouches over any connection.
      if (algorithm === undefined && scheme !== "https" && !clear) continue;
      const digest = algorithm && digestOf(algorithm, groups.digest.replaceAll("/", ""));
      if (algorithm && !digest) continue;
      const values = valuesOf(groups);
      return {
        registry,
        url: `${scheme}://${bracketed(host)}:${port}${path}${signed ? "?" : ""}`,
        scheme,
        host: `${bracketed(host)}:${port}`,
        path,
        ...(digest && { digest }),
        sources: vouched_by.map((source) => ({ ...source, values })),
        isSigned: signed,
      };
    }
    return undefined;
  }
}

/** A host as a URL has it. */
export function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function valuesOf(groups: Record<string, string | undefined>): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value = ""] of Object.entries(groups)) values[name] = value;
  const { name, module, version } = values;
  if (name !== undefined) values.crate_index = crateIndex(name);
  if (module !== undefined) [values.go_module, values.go_version] = [upperCase(module), upperCase(version)];
  return values;
}

/** Undoes the escape of capitals in the paths of Go's proxies (go.dev/ref/mod#goproxy-protocol). */
function upperCase(text: string): string {
  return text.replace(/!([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Path of a crate in Cargo's index (doc.rust-lang.org/cargo/reference/registry-index.html). */
function crateIndex(name: string): string {
  const lower = name.toLowerCase();
  if (lower.length < 3) return `${lower.length}/${lower}`;
  if (lower.length === 3) return `3/${lower[0]}/${lower}`;
  return `${lower.slice(0, 2)}/${lower.slice(2, 4)}/${lower}`;
}
