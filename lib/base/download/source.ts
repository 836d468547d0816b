/** Bytes at one address: a local file, or the answer of a server that is not trusted. */
import { SbxError } from "../error/mod.ts";
import { hostFetch, untrustedIssuer } from "../proxy/mod.ts";
import { fileURLToPath } from "node:url";
import { isPrivateHost } from "../address/mod.ts";
import { joinBytes } from "../bytes/mod.ts";

/** Most redirects of one download (docs/design/contracts/10-release.md §10). */
const REDIRECTS_MAX = 5;

/** `fetch` of this host: through its proxy, with its certificate authorities. */
export type HostFetch = (url: URL, init: RequestInit) => Promise<Response>;

/** How an address is fetched. */
export interface FetchOptions {
  fetch?: HostFetch;
  /** slowest server that is waited for */
  pace?: Pace;
}

/** Request to an address. */
export interface Question {
  /** offset of the first byte, to continue an interrupted download */
  start: number;
  /** size of the whole, in `bytes`; absent: the bytes have no known hash either */
  size?: number;
}

/** Bytes at one address. */
export interface Source {
  /** offset of the first byte: 0 when the server does not resume */
  start: number;
  chunks: AsyncIterable<Uint8Array<ArrayBuffer>>;
}

/**
 * Opens a `file:`, `http:` or `https:` address.
 *
 * @returns null when nothing exists at `url`
 * @throws {SbxError} `assets.download_failed`
 */
export async function openSource(
  url: URL,
  question: Question,
  options: FetchOptions = {},
): Promise<Source | null> {
  return url.protocol === "file:" ? await openFile(url, question) : await openHttp(url, question, options);
}

/**
 * Fetches a whole document of unknown size into memory.
 *
 * @param limit most `bytes`
 * @returns null when nothing exists at `url`
 * @throws {SbxError} `assets.download_failed`; `assets.too_large`
 */
export async function fetchSmall(
  url: URL,
  limit: number,
  options: FetchOptions = {},
): Promise<Uint8Array<ArrayBuffer> | null> {
  const source = await openSource(url, { start: 0 }, options);
  if (!source) return null;
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const chunk of source.chunks) {
    size += chunk.length;
    if (size > limit) {
      throw new SbxError("assets.too_large", `${displayUrl(url)} has more than ${limit} bytes`, {
        hint: "check the address; installed files are unchanged",
      });
    }
    chunks.push(chunk);
  }
  return joinBytes(chunks);
}

async function openFile(url: URL, { start }: Question): Promise<Source | null> {
  const path = fromFileUrl(url);
  try {
    // A pipe would wait for its writer.
    if (!(await Deno.stat(path)).isFile) throw failed(url, "it is not a regular file");
    const file = await Deno.open(path);
    await file.seek(start, Deno.SeekMode.Start);
    return { start, chunks: file.readable };
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return null;
    throw cause instanceof SbxError ? cause : failed(url, "the file cannot be read", cause);
  }
}

async function openHttp(url: URL, question: Question, options: FetchOptions): Promise<Source | null> {
  const watch = new PaceWatch(options.pace ?? PACE);
  try {
    const response = await follow(url, question, watch, options.fetch ?? hostFetch);
    const { status, body } = response;
    if (status === 200 || status === 206) {
      const start = rangeStart(response, question);
      if (start !== undefined && body) {
        await refuseUseless(url, response, question);
        return { start, chunks: readChunks(body, watch, url) };
      }
    }
    await body?.cancel();
    watch[Symbol.dispose]();
    if (status === 404 || status === 410) return null;
    // 416: the part is as long as the server's file, or longer. A wrong range is of another file. The whole
    // file is fetched again, and its hash decides.
    if (question.start > 0 && (status === 416 || status === 206)) {
      return await openHttp(url, { ...question, start: 0 }, options);
    }
    throw failed(url, `the server answered ${status}`);
  } catch (cause) {
    watch[Symbol.dispose]();
    if (cause instanceof SbxError) throw cause;
    throw failed(url, watch.signal.aborted ? "the server is too slow" : "the connection failed", cause);
  }
}

/** Sends the request, and follows redirects. */
async function follow(
  url: URL,
  { start, size }: Question,
  watch: PaceWatch,
  fetch: HostFetch,
): Promise<Response> {
  const headers = { "accept-encoding": "identity", ...(start > 0 && { range: `bytes=${start}-` }) };
  for (let at = url, hops = 0;; hops++) {
    const response = await fetch(at, { headers, redirect: "manual", signal: watch.signal }).catch(
      async (cause) => {
        const untrusted = watch.signal.aborted ? undefined : await untrustedIssuer(at, cause);
        throw untrusted ? failed(at, untrusted.problem, cause, untrusted.hint) : cause;
      },
    );
    if (![301, 302, 303, 307, 308].includes(response.status)) return response;
    await response.body?.cancel();
    if (hops === REDIRECTS_MAX) throw failed(url, `the server redirects more than ${REDIRECTS_MAX} times`);
    const next = followRedirect(at, response.headers.get("location"), size !== undefined);
    if (typeof next === "string") throw failed(url, next);
    at = next;
  }
}

/** Offset at which the body starts; `undefined` for another range than the requested one. */
function rangeStart({ status, headers }: Response, { start, size }: Question): number | undefined {
  if (status === 200) return 0;
  const range = headers.get("content-range")?.match(/^bytes (\d+)-(\d+)\/(\d+|\*)$/);
  const isAsked = range && start > 0 && Number(range[1]) === start &&
    (size === undefined || range[3] === "*" || Number(range[3]) === size);
  return isAsked ? start : undefined;
}

/** Refuses a body before its first byte: of another length, or compressed without having been asked to. */
async function refuseUseless(
  url: URL,
  { status, headers, body }: Response,
  question: Question,
): Promise<void> {
  const { start, size } = question;
  const encoding = headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity") {
    await body?.cancel();
    throw failed(url, `the server sends it as ${encoding.slice(0, 32)}, which was not asked for`);
  }
  const length = headers.get("content-length");
  const expected = size === undefined ? undefined : status === 206 ? size - start : size;
  if (length === null || expected === undefined || Number(length) === expected) return;
  await body?.cancel();
  throw new SbxError(
    "assets.mismatch",
    `${displayUrl(url)} does not match: expected ${expected} bytes, the server has ${length.slice(0, 32)}`,
    { hint: "check the address; its publisher may have to correct it; installed files are unchanged" },
  );
}

async function* readChunks(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  watch: PaceWatch,
  url: URL,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  using _watch = watch;
  try {
    for await (const chunk of body) {
      watch.count(chunk.length);
      yield chunk;
    }
  } catch (cause) {
    throw failed(url, watch.signal.aborted ? "the server is too slow" : "the connection broke", cause);
  }
}

/** Error of one address. */
export function failed(url: URL, reason: string, cause?: unknown, hint?: string): SbxError {
  return new SbxError("assets.download_failed", `cannot fetch ${displayUrl(url)}: ${reason}`, {
    cause,
    hint: hint ?? "try again: the download continues where it stopped, and installed files are unchanged",
  });
}

/** Slowest download that is waited for (docs/design/contracts/10-release.md §10, "Downloads"). */
export interface Pace {
  /** `ms` in which {@linkcode Pace.bytes} have to arrive */
  ms: number;
  bytes: number;
}

/** 2 KiB a second: slower than any line in use, faster than a server that wants to hold its clients. */
const PACE: Pace = { ms: 30_000, bytes: 60 * 1024 };

/** Aborts its signal when too few bytes arrive. */
class PaceWatch implements Disposable {
  readonly #abort = new AbortController();
  readonly #timer: ReturnType<typeof setInterval>;
  #arrived = 0;

  constructor({ ms, bytes }: Pace) {
    this.#timer = setInterval(() => {
      if (this.#arrived < bytes) this.#abort.abort();
      this.#arrived = 0;
    }, ms);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  count(bytes: number): void {
    this.#arrived += bytes;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

// Addresses of downloads: allowed ones, and their form in messages.

/** Formats an address without user, password, query and fragment, which may be secret. */
export function displayUrl({ protocol, host, pathname }: URL): string {
  return `${protocol}//${host}${pathname}`;
}

/** Path of a `file://` address. @throws {SbxError} `manifest.url.invalid` */
export function fromFileUrl(url: URL): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new SbxError(
      "manifest.url.invalid",
      `${displayUrl(url)} is not the path of a file on this machine`,
      {
        cause,
        hint: "give file:///path/manifest.json",
      },
    );
  }
}

/**
 * Address that a redirect leads to.
 *
 * @param isPinned the bytes have a known hash, so that another host may send them
 * @returns the address, or the reason why it is not fetched
 */
function followRedirect(from: URL, location: string | null, isPinned: boolean): URL | string {
  const to = location === null ? null : URL.parse(location, from);
  if (!to) return "the server redirects to an invalid address";
  const target = displayUrl(to).slice(0, 200);
  if (to.protocol !== "https:" && to.protocol !== "http:") {
    return `the server redirects to ${target}, which is not http`;
  }
  if (from.protocol === "https:" && to.protocol === "http:") {
    return `the server redirects from https to ${target}`;
  }
  if (to.username || to.password) return `the server redirects with a password to ${target}`;
  if (to.host === from.host) return to;
  if (!isPinned) return `the server redirects to another host, ${target}`;
  if (isPrivateHost(to.hostname) && !isPrivateHost(from.hostname)) {
    return `the server redirects to the private address ${target}`;
  }
  return to;
}
