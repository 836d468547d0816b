import { SbxError } from "../base/error/mod.ts";
import { fromFileUrl } from "./url.ts";

/** Longest silence of a server, in `ms`. */
const IDLE_MS = 30_000;

/** Bytes at one address. */
export interface Source {
  /** offset of the first byte: 0 when the server does not resume */
  start: number;
  chunks: AsyncIterable<Uint8Array>;
}

/**
 * Opens a `file://`, `http://` or `https://` address.
 *
 * @param start offset of the first byte to fetch, to continue an interrupted download
 * @returns null when nothing exists at `url`
 * @throws {SbxError} `assets.download_failed`
 */
export async function openSource(url: URL, start = 0): Promise<Source | null> {
  return url.protocol === "file:" ? await openFile(url, start) : await openHttp(url, start);
}

async function openFile(url: URL, start: number): Promise<Source | null> {
  try {
    const file = await Deno.open(fromFileUrl(url));
    await file.seek(start, Deno.SeekMode.Start);
    return { start, chunks: file.readable };
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return null;
    throw downloadError(url, "the file cannot be read", cause);
  }
}

async function openHttp(url: URL, start: number): Promise<Source | null> {
  const idle = new IdleTimer();
  try {
    const response = await fetch(url, {
      headers: start ? { range: `bytes=${start}-` } : {},
      signal: idle.signal,
    });
    if (response.status === 404) {
      await response.body?.cancel();
      return null;
    }
    // 416: the part is as long as the server's file, or longer. The whole file is fetched again, and its hash
    // decides.
    if (response.status === 416 && start > 0) {
      await response.body?.cancel();
      idle.stop();
      return await openHttp(url, 0);
    }
    if (!response.ok || !response.body) {
      await response.body?.cancel();
      throw downloadError(url, `the server answered ${response.status}`);
    }
    const isResumed = response.status === 206 && rangeStart(response) === start;
    if (response.status === 206 && !isResumed) {
      await response.body.cancel();
      throw downloadError(url, "the server sent a different range than requested");
    }
    return { start: isResumed ? start : 0, chunks: readChunks(response.body, idle, url) };
  } catch (cause) {
    idle.stop();
    if (cause instanceof SbxError) throw cause;
    throw downloadError(
      url,
      idle.signal.aborted ? `the server sent nothing for ${IDLE_MS / 1000} s` : "the connection failed",
      cause,
    );
  }
}

async function* readChunks(
  body: ReadableStream<Uint8Array>,
  idle: IdleTimer,
  url: URL,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of body) {
      idle.touch();
      yield chunk;
    }
  } catch (cause) {
    throw downloadError(
      url,
      idle.signal.aborted ? `the server sent nothing for ${IDLE_MS / 1000} s` : "the connection broke",
      cause,
    );
  } finally {
    idle.stop();
  }
}

function rangeStart(response: Response): number {
  return Number(response.headers.get("content-range")?.match(/^bytes (\d+)-/)?.[1] ?? NaN);
}

/** Aborts its signal after {@linkcode IDLE_MS} without a touch. */
class IdleTimer {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> = this.#start();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  touch(): void {
    clearTimeout(this.#timer);
    this.#timer = this.#start();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #start(): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.#controller.abort(), IDLE_MS);
  }
}

function downloadError(url: URL, reason: string, cause?: unknown): SbxError {
  return new SbxError("assets.download_failed", `cannot fetch ${displayUrl(url)}: ${reason}`, {
    cause,
    hint: "try again: the download continues where it stopped, and the installed assets are unchanged",
  });
}

/** Formats an address without password and query, which may be secret. */
export function displayUrl(url: URL): string {
  const { protocol, host, pathname } = url;
  return `${protocol}//${host}${pathname}`;
}
