/**
 * Archives of Debian packages. The path of a package has no digest: the index of its suite does, and the
 * suite's release file has the digest of the index (wiki.debian.org/DebianRepository/Format). The host gets
 * both over TLS, whatever the guest's apt uses. Which suites an archive has is seen in the requests of apt's
 * own; a guest that asks for others only adds documents that say nothing.
 */
import { createHash } from "node:crypto";
import { ignore } from "../base/error/mod.ts";
import { currentArch } from "../base/arch/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";
import { type PackageDigests, readPackages } from "./apt_packages.ts";
import { type Digest, digestOf } from "./digest.ts";
import * as limit from "./limit.ts";

/** Fetches a document of an archive; `undefined` for anything but a whole one. */
type Fetch = (url: string, maxBytes?: number) => Promise<Uint8Array | undefined>;

/** The part of the store that keeps indexes for other VMs, and for later. */
export interface IndexStore {
  /** @returns `undefined` as well for one of more than {@linkcode limit.INDEX_MAX} */
  read(url: string, digest: Digest): Promise<Uint8Array | undefined>;
  keep(url: string, digest: Digest, bytes: Uint8Array): Promise<void>;
}

/** A file of an archive, as a request names it. */
interface Place {
  scheme: string;
  /** with its port, unless that is the scheme's own */
  host: string;
  path: string;
}

/** Requests by which a suite is seen. */
const OF_SUITE =
  /^(?<base>(?:\/[^/]+){0,8}?)\/dists\/(?<suite>[^/]+(?:\/updates)?)\/(?:InRelease|Release|[^/]+\/binary-[^/]+\/by-hash\/SHA256\/[0-9a-f]{64})$/;

/** A suite of an archive, with its documents: those that are being fetched, too. */
interface Suite {
  url: string;
  release?: Promise<Release | undefined>;
}

interface Release {
  hasByHash: boolean;
  /** path of a packed index below the suite → SHA-256 */
  digests: Map<string, string>;
}

interface Index {
  packages: Promise<PackageDigests | undefined>;
  usedAt: number;
  /** it is not asked for again until it is forgotten */
  hasFailed?: boolean;
}

/** A string that is no part of a longer one, which it would keep in memory. */
const copyOf = (text: string) => new TextDecoder().decode(new TextEncoder().encode(text));

/** Digests of the packages of archives, for one VM. */
export class AptIndexes {
  readonly #store: IndexStore;
  readonly #now: () => number;
  /** by archive, the suite that was seen last at the end */
  readonly #suites = new Map<string, Map<string, Suite>>();
  /** by SHA-256 */
  readonly #indexes = new Map<string, Index>();
  /** indexes are read one after the other: a guest can ask for hundreds at once */
  #reading: Promise<unknown> = Promise.resolve();

  constructor(store: IndexStore, now = () => performance.now()) {
    this.#store = store;
    this.#now = now;
  }

  /** Sees a request of the guest: apt asks for a suite's release file before it downloads a package of it. */
  see({ scheme, host, path }: Place): void {
    this.#forgetUnused();
    // apt sends no query, and the host none that a guest made up.
    if (path.length > limit.SUITE_PATH_MAX || path.includes("?")) return;
    const { base, suite } = OF_SUITE.exec(path)?.groups ?? {};
    const archive = suite === undefined ? undefined : archiveOf(scheme, host, base);
    if (archive === undefined) return;
    const suites = this.#suites.get(archive) ?? new Map<string, Suite>();
    setLast(this.#suites, archive, suites, limit.ARCHIVES_MAX);
    const isRelease = path.endsWith("Release");
    // A release file that apt asks for again may be another one.
    const known = isRelease ? undefined : suites.get(suite);
    setLast(suites, suite, known ?? { url: `${archive}/dists/${suite}` }, limit.SUITES_MAX);
  }

  /**
   * The digest of a package by the suites that were seen.
   *
   * @param values `base`, `component`, `file` and `arch` of its path, as the request has them
   */
  async digest(
    { scheme, host }: Omit<Place, "path">,
    values: Record<string, string>,
    document: Fetch,
  ): Promise<Digest | undefined> {
    // A suite that cannot be read keeps no other one from vouching.
    const fetch: Fetch = (url, max) => document(url, max).catch(ignore("nothing vouches for its packages"));
    const archive = archiveOf(scheme, host, values.base);
    const file = decoded(values.file);
    if (archive === undefined || file === undefined || /\s/.test(file)) return undefined;
    for (const suite of [...this.#suites.get(archive)?.values() ?? []].reverse()) {
      const release = await (suite.release ??= readRelease(suite.url, fetch));
      const name = `${values.component}/binary-${
        values.arch === "all" ? debianArch() : values.arch
      }/Packages.gz`;
      const hex = release?.digests.get(name);
      if (!release || hex === undefined) continue;
      const folder = `${suite.url}/${name.slice(0, name.lastIndexOf("/"))}`;
      const url = release.hasByHash ? `${folder}/by-hash/SHA256/${hex}` : `${suite.url}/${name}`;
      const packages = await this.#index(url, hex, release.hasByHash, fetch);
      const found = packages?.find(file);
      if (found) return found;
    }
    return undefined;
  }

  #index(
    url: string,
    hex: string,
    mayKeep: boolean,
    fetch: Fetch,
  ): Promise<PackageDigests | undefined> {
    const found = this.#indexes.get(hex);
    const index: Index = found ?? { usedAt: this.#now(), packages: Promise.resolve(undefined) };
    if (!index.hasFailed) index.usedAt = this.#now();
    setLast(this.#indexes, hex, index, limit.INDEXES_MAX);
    if (found) return found.packages;
    const read = async () => {
      // Others have taken its place.
      if (this.#indexes.get(hex) !== index) return undefined;
      const packages = await this.#load(url, hex, mayKeep, fetch).catch(
        ignore("nothing vouches for its packages"),
      );
      index.hasFailed = packages === undefined;
      return packages;
    };
    this.#reading = index.packages = this.#reading.then(read);
    return index.packages;
  }

  async #load(url: string, hex: string, mayKeep: boolean, fetch: Fetch): Promise<PackageDigests | undefined> {
    const digest = digestOf("sha256", hex)!;
    const kept = mayKeep ? await this.#store.read(url, digest) : undefined;
    const bytes = kept ?? await fetch(url, limit.INDEX_MAX);
    if (!bytes || createHash("sha256").update(bytes).digest("hex") !== hex) return undefined;
    if (mayKeep && !kept) await this.#store.keep(url, digest, bytes);
    return await readPackages(bytes);
  }

  /** An index takes 3 MB, and apt is done with it soon. */
  #forgetUnused(): void {
    const old = this.#now() - limit.INDEX_UNUSED_MS;
    for (const [hex, { usedAt }] of this.#indexes) if (usedAt < old) this.#indexes.delete(hex);
  }
}

/** Sets the last entry of a map, which forgets its first one. */
function setLast<Value>(map: Map<string, Value>, key: string, value: Value, max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size > max) map.delete(map.keys().next().value!);
}

/**
 * URL of an archive over TLS; `undefined` for a mirror at a port without TLS of which
 * the port with TLS is not known.
 */
function archiveOf(scheme: string, host: string, base: string): string | undefined {
  const url = URL.parse(`${scheme}://${host}`);
  // A URL leaves out the port that is its scheme's own.
  return url && (scheme === "https" || url.port === "") ? `https://${url.host}${base}` : undefined;
}

/** Line of a release file for an index. */
const INDEX_LINE = /^ ([0-9a-f]{64}) +\d+ ([^\s/]{1,64}\/binary-[^\s/]{1,64}\/Packages\.gz)\r?$/gm;

/** The indexes that a release file has. */
export function indexesIn(text: string): Map<string, string> {
  const digests = new Map<string, string>();
  for (const [, hex, path] of text.matchAll(INDEX_LINE)) {
    digests.set(copyOf(path), copyOf(hex));
    if (digests.size === limit.SUITE_INDEXES_MAX) break;
  }
  return digests;
}

async function readRelease(url: string, fetch: Fetch): Promise<Release | undefined> {
  for (const name of ["InRelease", "Release"]) {
    const bytes = await fetch(`${url}/${name}`);
    const text = bytes && decodeUtf8(bytes);
    if (text === undefined) continue;
    return { digests: indexesIn(text), hasByHash: /^Acquire-By-Hash: yes\r?$/m.test(text) };
  }
  return undefined;
}

/** Debian's name of the architecture whose index has the packages of every architecture, too. */
function debianArch(): string {
  return currentArch() === "arm64" ? "arm64" : "amd64";
}

/** apt writes `+` as `%2b`. */
function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}
