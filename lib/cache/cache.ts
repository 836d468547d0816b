/**
 * The shared cache from the network's side: answers a download of one VM from the store, or keeps it
 * (docs/guides/caches.md).
 */
import { log } from "../base/log/mod.ts";
import type { ArtifactCopy, CachedArtifact, CachedContent, CachePort } from "../network/interface/mod.ts";
import { AptIndexes } from "./apt.ts";
import { INDEX_MAX } from "./limit.ts";
import { algorithmOf, type Digest } from "./digest.ts";
import { type Artifact, type ArtifactRequest, bracketed, Registries } from "./registry.ts";
import { ArtifactStore, type Copy, type OpenArtifact } from "./store.ts";
import { type FetchDocument, findVoucher, type Voucher } from "./voucher.ts";

/** The cache as one VM has it. */
export interface CacheOptions {
  /** folder of the store, which VMs of one scope share */
  dir: string;
  /** registries whose artefacts are kept, with their further hosts */
  registries: Readonly<Record<string, readonly string[]>>;
  maxBytes: number;
  /** asked for each request; absent: always */
  isAllowed?(): boolean;
}

/** The shared cache, for the network of one VM. A failing disk makes it forget; it never fails a request. */
export class SharedCache implements CachePort {
  readonly #registries: Registries;
  readonly #store: ArtifactStore;
  readonly #isAllowed: () => boolean;
  readonly #apt: AptIndexes;

  private constructor(registries: Registries, store: ArtifactStore, isAllowed: () => boolean) {
    this.#registries = registries;
    this.#store = store;
    this.#isAllowed = isAllowed;
    this.#apt = new AptIndexes({
      read: (url, digest) => this.#readIndex(url, digest).catch(forget),
      keep: (url, digest, bytes) => this.#keepIndex(url, digest, bytes).catch(forget),
    });
  }

  /** @throws {SbxError} `home.foreign`, `cache.invalid` */
  static async open(
    { dir, registries, maxBytes, isAllowed = () => true }: CacheOptions,
  ): Promise<SharedCache> {
    return new SharedCache(new Registries(registries), await ArtifactStore.open(dir, maxBytes), isAllowed);
  }

  see({ scheme, host, port, target }: ArtifactRequest): void {
    this.#apt.see({ scheme, host: `${bracketed(host)}:${port}`, path: target });
  }

  match(request: ArtifactRequest): CachedArtifact | undefined {
    const artifact = this.#isAllowed() ? this.#registries.match(request) : undefined;
    if (!artifact) return undefined;
    return {
      isSigned: artifact.isSigned,
      open: () => this.#open(artifact),
      copy: (length, document) => this.#copy(artifact, length, document),
    };
  }

  async #open({ url, digest }: Artifact): Promise<CachedContent | undefined> {
    const found: OpenArtifact | undefined = await this.#store.find(url, digest).catch(forget);
    if (!found) return undefined;
    return {
      bytes: found.record.bytes,
      digest: found.record.digest,
      read: () => found.read(),
      close: () => found.close(),
    };
  }

  async #copy(
    artifact: Artifact,
    length: number | undefined,
    document: FetchDocument,
  ): Promise<ArtifactCopy | undefined> {
    const algorithm = artifact.digest && algorithmOf(artifact.digest);
    const copy: Copy | undefined = await this.#store.begin(algorithm, length).catch(forget);
    return copy && new KeptCopy(this.#store, copy, artifact, findVoucher(artifact, document, this.#apt));
  }

  async #readIndex(url: string, digest: Digest): Promise<Uint8Array | undefined> {
    const found = await this.#store.find(url, digest);
    if (!found) return undefined;
    try {
      // A guest can have an artefact of any size kept under the URL of an index.
      if (found.record.bytes > INDEX_MAX) return undefined;
      const bytes = new Uint8Array(found.record.bytes);
      let at = 0;
      for (let piece = await found.read(); piece; piece = await found.read()) {
        bytes.set(piece, at);
        at += piece.length;
      }
      return bytes;
    } finally {
      found.close();
    }
  }

  async #keepIndex(url: string, digest: Digest, bytes: Uint8Array): Promise<void> {
    const copy = await this.#store.begin(algorithmOf(digest), bytes.length);
    if (!copy) return;
    if (await copy.write(bytes)) await this.#store.commit(copy, { registry: "apt", url }, digest);
    else await copy.drop();
  }
}

/** A copy whose digest is asked for. */
class KeptCopy implements ArtifactCopy {
  readonly #store: ArtifactStore;
  readonly #artifact: Artifact;
  readonly #voucher: Promise<Voucher | undefined>;
  #copy?: Copy;

  constructor(store: ArtifactStore, copy: Copy, artifact: Artifact, voucher: Promise<Voucher | undefined>) {
    this.#store = store;
    this.#copy = copy;
    this.#artifact = artifact;
    // While the artefact arrives.
    this.#voucher = voucher.catch(forget);
  }

  async write(piece: Uint8Array): Promise<void> {
    try {
      if (await this.#copy?.write(piece) === false) this.drop();
    } catch (error) {
      forget(error);
      this.drop();
    }
  }

  keep(): void {
    const copy = this.#copy;
    this.#copy = undefined;
    if (copy) this.#keep(copy).catch(forget);
  }

  drop(): void {
    this.#copy?.drop().catch(forget);
    this.#copy = undefined;
  }

  async #keep(copy: Copy): Promise<void> {
    const voucher = await this.#voucher;
    const { url } = this.#artifact;
    if (!voucher) {
      await copy.drop();
      log.debug(`not kept in the cache, since nothing vouches for it: ${url}`);
    } else if (!await this.#store.commit(copy, this.#artifact, voucher)) {
      log.warn(
        `${url} is not the file that its registry vouches for; it is not kept in the cache`,
      );
    }
  }
}

function forget(error: unknown): undefined {
  log.debug(`the cache: ${error}`);
}
