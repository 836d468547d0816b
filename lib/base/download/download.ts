/** One file of known size and hash, from the first of several addresses that has it. */
import { ifFound, SbxError } from "../error/mod.ts";
import { Digest, HASH_CHUNK } from "../hash/mod.ts";
import { formatBytes, type ProgressSink, silent } from "../progress/mod.ts";
import { displayUrl, failed, type FetchOptions, fromFileUrl, openSource } from "./source.ts";
import { statfs } from "node:fs/promises";

/** The bytes that a file must have. */
export interface Content {
  /** `bytes` */
  size: number;
  /** 64 hex characters */
  blake3: string;
  /** 64 hex characters */
  sha256?: string;
}

/** A download. */
export interface DownloadOptions extends FetchOptions {
  /** name in errors, such as `rootfs.erofs` */
  what: string;
  /** addresses of the same bytes, tried in this order */
  sources: readonly URL[];
  /** file to write; `<path>.part` beside it until it is complete */
  path: string;
  content: Content;
  /** its current stage counts bytes */
  progress?: ProgressSink;
}

/**
 * Fetches a file. An interrupted download stays as `.part` and is continued, also from another address. The
 * file gets its name only when size and hashes match, so that readers only ever find it complete.
 *
 * @throws {SbxError} `assets.not_found`: no address has it; `assets.mismatch`; `assets.download_failed`
 * @throws the error of the file system, when the file cannot be written
 */
export async function download(options: DownloadOptions): Promise<void> {
  const { sources, path, what } = options;
  const part = new Part(options);
  const problems: SbxError[] = [];
  for (const url of sources) {
    try {
      if (!await part.fetch(url)) continue;
      await Deno.rename(part.path, path);
      return;
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      problems.push(error);
    }
  }
  if (problems.length === 0) {
    throw new SbxError("assets.not_found", `${what} not found; tried ${sources.map(displayUrl).join(", ")}`, {
      hint: "publish the files of a manifest beside it",
    });
  }
  // A mismatch comes first: it may be an attack, and the other problems may pass.
  const [first] = problems.toSorted((a, b) => rank(a) - rank(b));
  const others = problems.filter((each) => each !== first).map(({ message }) => message);
  if (others.length === 0) throw first;
  throw new SbxError(first.code, [first.message, ...others].join("; "), { cause: first, hint: first.hint });
}

function rank({ code }: SbxError): number {
  return code === "assets.mismatch" ? 0 : 1;
}

/** The end of a try at one address; without a difference the part is complete. */
interface Tried {
  difference?: string;
}

/** The part of a file that has arrived. */
class Part {
  readonly path: string;
  readonly #options: DownloadOptions;
  readonly #progress: ProgressSink;
  #shown = 0;

  constructor(options: DownloadOptions) {
    this.#options = options;
    this.#progress = options.progress ?? silent;
    this.path = `${options.path}.part`;
  }

  /** Completes the part from one address. @returns false when nothing exists at `url` */
  async fetch(url: URL): Promise<boolean> {
    const { content, what } = this.#options;
    const old = await Deno.stat(this.path).then(({ size }) => size, () => 0);
    const start = old <= content.size ? old : 0;
    let tried = await this.#complete(url, start);
    // The old part may be bad, from another server or a fault: the whole file decides.
    if (tried?.difference && start > 0) tried = await this.#complete(url, 0);
    if (tried === null) return false;
    if (tried.difference === undefined) return true;
    await ifFound(Deno.remove(this.path));
    throw new SbxError(
      "assets.mismatch",
      `${what} from ${displayUrl(url)} does not match: ${tried.difference}`,
      {
        hint: "its publisher must correct it; installed files are unchanged",
      },
    );
  }

  /** Appends the bytes from `start` on. @returns null when nothing exists at `url` */
  async #complete(url: URL, start: number): Promise<Tried | null> {
    const { content } = this.#options;
    const digest = new Digest({ sha256: content.sha256 !== undefined });
    if (start === content.size) {
      await this.#hash(digest, start);
      return { difference: differenceOf(digest, content) };
    }
    if (url.protocol === "file:" && start === 0) return await this.#copy(url, digest);
    const source = await openSource(url, { start, size: content.size }, this.#options);
    if (!source) return null;
    await this.#hash(digest, source.start);
    using out = await Deno.open(this.path, { write: true, create: true, mode: 0o600 });
    await out.truncate(source.start);
    await out.seek(source.start, Deno.SeekMode.Start);
    for await (const chunk of source.chunks) {
      digest.update(chunk);
      // Endless data ends here.
      if (digest.size > content.size) break;
      for (let at = 0; at < chunk.length;) at += await out.write(chunk.subarray(at));
      this.#show(digest.size);
    }
    await out.sync();
    if (digest.size < content.size && url.protocol !== "file:") {
      throw failed(url, `it ended after ${digest.size} of ${content.size} bytes`);
    }
    return { difference: differenceOf(digest, content) };
  }

  /**
   * Copies a local file in the kernel, which shares its blocks where the file system can: 300 MB at no cost.
   *
   * @returns null when nothing exists at `url`
   */
  async #copy(url: URL, digest: Digest): Promise<Tried | null> {
    const { content } = this.#options;
    const from = fromFileUrl(url);
    const info = await ifFound(Deno.stat(from)).catch((cause) => {
      throw failed(url, "it cannot be read", cause);
    });
    if (!info) return null;
    if (!info.isFile) throw failed(url, "it is not a regular file");
    if (info.size !== content.size) return { difference: `expected ${content.size} bytes, got ${info.size}` };
    await ifFound(Deno.remove(this.path));
    await Deno.copyFile(from, this.path);
    await Deno.chmod(this.path, 0o600);
    await this.#hash(digest, content.size + 1);
    return { difference: differenceOf(digest, content) };
  }

  /** Hashes the part up to `end`. */
  async #hash(digest: Digest, end: number): Promise<void> {
    this.#show(0);
    if (end === 0) return;
    using file = await Deno.open(this.path);
    const chunk = new Uint8Array(HASH_CHUNK);
    for (let read; digest.size < end && (read = await file.read(chunk)) !== null;) {
      digest.update(chunk.subarray(0, Math.min(read, end - digest.size)));
      this.#show(digest.size);
    }
  }

  /** Sets the progress to a position, which may be an earlier one. */
  #show(position: number): void {
    this.#progress.advance(position - this.#shown);
    this.#shown = position;
  }
}

/** @returns the difference between downloaded and expected bytes; `undefined` if they are the same */
function differenceOf(digest: Digest, { size, blake3, sha256 }: Content): string | undefined {
  if (digest.size !== size) return `expected ${size} bytes, got ${digest.size > size ? "more" : digest.size}`;
  const actual = digest.digest();
  if (actual.blake3 !== blake3) return `expected BLAKE3 ${blake3}, got ${actual.blake3}`;
  if (sha256 === undefined || actual.sha256 === sha256) return undefined;
  return `expected SHA-256 ${sha256}, got ${actual.sha256}`;
}

/**
 * Refuses downloads that the disk has no room for, before the first byte; sizes in a manifest may be beyond
 * any disk.
 *
 * @param bytes of all files together
 * @throws {SbxError} `disk.full`
 */
export async function requireRoom(dir: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= bytes) return;
  throw new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(bavail * bsize)} free, and the download needs ${formatBytes(bytes)}`,
    { hint: "free some space, or remove old files with sbx image prune; installed files are unchanged" },
  );
}
