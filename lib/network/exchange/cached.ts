/**
 * Artefacts of the shared cache on the way of a request (docs/design/contracts/05-policy.md §5,
 * "Cache"). A copy comes into the exchange in place of the upstream's response: decision, event, review
 * and relay are the same for both.
 */
import type {
  ArtifactCopy,
  CachedArtifact,
  CachedContent,
  CachePort,
  Destination,
} from "../interface/mod.ts";
import type { BodySource } from "../message/body.ts";
import { encodingOf } from "../message/encoding.ts";
import { type Header, isSensitive } from "../message/header.ts";
import type { ExchangeReply } from "../upstream/pool.ts";
import type { CapturedHead } from "./request.ts";

/** The cache, and the way of the host to the documents that vouch for artefacts. */
export interface ExchangeCache {
  port: CachePort;
  /** @returns `undefined` for a document that rules do not allow, or that did not come whole */
  document(url: string, maxBytes?: number): Promise<Uint8Array | undefined>;
}

/** Fields that ask for a part of a file, or for its difference to another. */
const SELECTING = /^(range|if-.*|a-im)$/;

/** One request for an artefact. */
export class CachedExchange {
  readonly #artifact: CachedArtifact;
  readonly #cache: ExchangeCache;
  #copy?: ArtifactCopy;
  #content?: CachedContent;

  private constructor(cache: ExchangeCache, artifact: CachedArtifact) {
    this.#cache = cache;
    this.#artifact = artifact;
  }

  /** @returns `undefined` for a request that the upstream alone may answer */
  static of(
    cache: ExchangeCache,
    { scheme, host, port }: Destination,
    { method, target, headers }: CapturedHead,
  ): CachedExchange | undefined {
    if (method !== "GET") return undefined;
    cache.port.see({ scheme, host, port, target });
    if (headers.some(isPersonal)) return undefined;
    const artifact = cache.port.match({ scheme, host, port, target });
    return artifact && new CachedExchange(cache, artifact);
  }

  /** The copy as a response, unless the upstream has to be asked. */
  async find(): Promise<ExchangeReply | undefined> {
    return this.#artifact.isSigned ? undefined : await this.#open();
  }

  /** Puts the copy in place of a response's body, or makes one of it as it passes. */
  async follow(reply: ExchangeReply): Promise<ExchangeReply> {
    const { response, exchange } = reply;
    const { status, headers, body, upgraded } = response;
    if (status !== 200 || upgraded || encodingOf(headers) !== undefined) return reply;
    if (this.#artifact.isSigned && body.length !== undefined) {
      const stored = await this.#open(body.length);
      if (stored) {
        exchange.abort();
        return stored;
      }
    }
    this.#copy = await this.#artifact.copy(body.length, (url, max) => this.#cache.document(url, max));
    if (!this.#copy) return reply;
    return { response: { ...response, body: new CopiedBody(body, this.#copy) }, exchange };
  }

  /** Ends the exchange. Only a copy of a whole response is kept, and {@linkcode CopiedBody} keeps it. */
  end(): void {
    this.#copy?.drop();
    this.#content?.close();
  }

  /** @param length of the upstream's response; another one is another file */
  async #open(length?: number): Promise<ExchangeReply | undefined> {
    const content = await this.#artifact.open();
    if (!content) return undefined;
    this.#content = content;
    if (length !== undefined && content.bytes !== length) {
      content.close();
      return undefined;
    }
    const body = new StoredBody(content);
    // No field of the response that was copied: another VM's request led to it.
    const headers: Header[] = [["content-type", "application/octet-stream"]];
    return {
      response: { status: 200, headers, body, declared: `${content.bytes}`, cacheDigest: content.digest },
      exchange: WITHOUT_UPSTREAM,
    };
  }
}

/** True for a field that says who asks, or asks for something else than the whole file. */
function isPersonal([name, value]: Header): boolean {
  if (name === "cache-control" || name === "pragma") return /no-cache|no-store/i.test(value);
  return SELECTING.test(name) || isSensitive(name);
}

/** An exchange that nothing was sent for. */
const WITHOUT_UPSTREAM: ExchangeReply["exchange"] = { done() {}, abort() {} };

/** Body from the cache. */
class StoredBody implements BodySource {
  readonly length: number;
  readonly trailers = [];
  readonly ready = true;
  done = false;
  readonly #content: CachedContent;

  constructor(content: CachedContent) {
    this.#content = content;
    this.length = content.bytes;
  }

  async read(): Promise<Uint8Array | null> {
    const piece = await this.#content.read();
    this.done = piece === null;
    return piece;
  }
}

/** Body on its way to the guest, of which a copy is made. */
class CopiedBody implements BodySource {
  readonly #body: BodySource;
  readonly #copy: ArtifactCopy;
  #count = 0;

  constructor(body: BodySource, copy: ArtifactCopy) {
    this.#body = body;
    this.#copy = copy;
  }

  get length(): number | undefined {
    return this.#body.length;
  }

  get trailers(): readonly Header[] {
    return this.#body.trailers;
  }

  get done(): boolean {
    return this.#body.done;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  get noCloseNotify(): boolean {
    return this.#body.noCloseNotify ?? false;
  }

  async read(): Promise<Uint8Array | null> {
    const piece = await this.#body.read();
    if (piece !== null) {
      await this.#copy.write(piece);
      this.#count += piece.length;
    }
    // A short body is read no further. Whether the bytes are whole is for their digest to say.
    if (piece === null || this.#count === this.length) this.#copy.keep();
    return piece;
  }
}
