/**
 * Archives of Debian packages. The path of a package has no digest: the index of its suite does, and the suite's release file has the
 * digest of the index (wiki.debian.org/DebianRepository/Format). The host gets both over TLS, whatever the guest's apt uses. Which
 * suites an archive has is seen in the requests of apt's own; a guest that asks for others only adds documents that say nothing.
 */
import type { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { currentArch } from "../base/arch/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";
import { type Digest, digestOf } from "./digest.ts";
import * as limit from "./limit.ts";

const unpack = promisify(gunzip) as (bytes: Uint8Array, options: object) => Promise<Buffer>;

/** Fields of an index that count, and the end of a paragraph. */
const FIELD = /^(?:Filename: (\S+)|SHA256: ([0-9a-f]{64})|)$/gm;

/** Fetches a document of an archive; `undefined` for anything but a whole one. */
type Fetch = (url: string, maxBytes?: number) => Promise<Uint8Array | undefined>;

/** The part of the store that keeps indexes for other VMs, and for later. */
export interface IndexStore {
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
  /** path below the suite → SHA-256 */
  digests: Map<string, string>;
}

/** An index as one text of lines `PATH SHA-256`: a map of 70,000 paths takes four times the memory. */
interface Index {
  text: Promise<string | undefined>;
  usedAt: number;
}

/** Digests of the packages of archives, for one VM. */
export class AptIndexes {
  readonly #store: IndexStore;
  readonly #now: () => number;
  /** by archive, the suite that was seen last at the end */
  readonly #suites = new Map<string, Map<string, Suite>>();
  /** by SHA-256 */
  readonly #indexes = new Map<string, Index>();

  constructor(store: IndexStore, now = () => performance.now()) {
    this.#store = store;
    this.#now = now;
  }

  /** Sees a request of the guest: apt asks for a suite's release file before it downloads a package of it. */
  see({ scheme, host, path }: Place): void {
    this.#forgetUnused();
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
    fetch: Fetch,
  ): Promise<Digest | undefined> {
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
      const text = await this.#index(url, hex, release.hasByHash, fetch);
      const found = text === undefined ? undefined : digestIn(text, file);
      if (found) return found;
    }
    return undefined;
  }

  #index(url: string, hex: string, mayKeep: boolean, fetch: Fetch): Promise<string | undefined> {
    const index = this.#indexes.get(hex) ?? { text: this.#load(url, hex, mayKeep, fetch), usedAt: 0 };
    index.usedAt = this.#now();
    setLast(this.#indexes, hex, index, limit.INDEXES_MAX);
    return index.text;
  }

  async #load(url: string, hex: string, mayKeep: boolean, fetch: Fetch): Promise<string | undefined> {
    const digest = digestOf("sha256", hex)!;
    const kept = mayKeep ? await this.#store.read(url, digest) : undefined;
    const bytes = kept ?? await fetch(url, limit.INDEX_MAX);
    if (!bytes || createHash("sha256").update(bytes).digest("hex") !== hex) return undefined;
    if (mayKeep && !kept) await this.#store.keep(url, digest, bytes);
    return await readIndex(bytes);
  }

  /** An index takes 11 MB, and apt is done with it soon. */
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

/** URL of an archive over TLS; `undefined` for a mirror at a port without TLS of which the port with TLS is not known. */
function archiveOf(scheme: string, host: string, base: string): string | undefined {
  const url = URL.parse(`${scheme}://${host}`);
  // A URL leaves out the port that is its scheme's own.
  return url && (scheme === "https" || url.port === "") ? `https://${url.host}${base}` : undefined;
}

async function readRelease(url: string, fetch: Fetch): Promise<Release | undefined> {
  for (const name of ["InRelease", "Release"]) {
    const bytes = await fetch(`${url}/${name}`);
    const text = bytes && decodeUtf8(bytes);
    if (text === undefined) continue;
    const digests = new Map<string, string>();
    for (const [, hex, path] of text.matchAll(/^ ([0-9a-f]{64}) +\d+ (\S+)\r?$/gm)) digests.set(path, hex);
    return { digests, hasByHash: /^Acquire-By-Hash: yes\r?$/m.test(text) };
  }
  return undefined;
}

/** Lines of an index that count; `undefined` for one that is damaged or too long. As one text it would take 200 MB. */
async function readIndex(packed: Uint8Array): Promise<string | undefined> {
  let index: Buffer;
  try {
    index = await unpack(packed, { maxOutputLength: limit.INDEX_TEXT_MAX });
  } catch {
    return undefined;
  }
  const parts = ["\n"];
  let path: string | undefined, digest: string | undefined;
  for (let at = 0; at < index.length;) {
    const piece = index.subarray(at, at + limit.CHUNK);
    // Whole lines, unless one is longer than a piece.
    const end = at + (piece.lastIndexOf(10) + 1 || piece.length);
    const lines: string[] = [];
    for (
      const [line, file, sha256] of index.toString("latin1", at, index[end - 1] === 10 ? end - 1 : end)
        .matchAll(FIELD)
    ) {
      if (file !== undefined) path = file;
      else if (sha256 !== undefined) digest = sha256;
      if (line !== "") continue;
      if (path !== undefined && digest !== undefined) lines.push(`${path} ${digest}\n`);
      path = digest = undefined;
    }
    if (end === index.length && path !== undefined && digest !== undefined) lines.push(`${path} ${digest}\n`);
    parts.push(lines.join(""));
    at = end;
    // Other requests of the VM go on meanwhile.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return parts.join("");
}

function digestIn(text: string, file: string): Digest | undefined {
  const line = `\n${file} `;
  const at = text.indexOf(line);
  return at < 0 ? undefined : digestOf("sha256", text.slice(at + line.length, text.indexOf("\n", at + 1)));
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
