import { fromFileUrl } from "./url.ts";
import { SbxError } from "../base/error/mod.ts";

/** A server that says nothing for so long is taken for gone. */
const IDLE_MS = 30_000;

/** Bytes of one place, from `start` on. */
export interface Source {
  /** where the bytes really begin: 0 when the server does not resume */
  start: number;
  chunks: AsyncIterable<Uint8Array>;
}

/**
 * Opens a `file://`, `http://` or `https://` address.
 *
 * @param start the first byte wanted: what came before an interruption is not fetched again
 * @returns null when there is nothing at `url`
 * @throws {SbxError} `assets.download_failed`
 */
export async function open(url: URL, start = 0): Promise<Source | null> {
  return url.protocol === "file:" ? await openFile(url, start) : await openHttp(url, start);
}

async function openFile(url: URL, start: number): Promise<Source | null> {
  try {
    const file = await Deno.open(fromFileUrl(url));
    await file.seek(start, Deno.SeekMode.Start);
    return { start, chunks: file.readable };
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return null;
    throw failed(url, "it cannot be read", cause);
  }
}

async function openHttp(url: URL, start: number): Promise<Source | null> {
  const idle = new Idle();
  try {
    const response = await fetch(url, {
      headers: start ? { range: `bytes=${start}-` } : {},
      signal: idle.signal,
    });
    if (response.status === 404) {
      await response.body?.cancel();
      return null;
    }
    // 416: what we have is all that the server has, or more; its hash will tell.
    if (response.status === 416 && start > 0) {
      await response.body?.cancel();
      idle.stop();
      return await openHttp(url, 0);
    }
    if (!response.ok || !response.body) {
      await response.body?.cancel();
      throw failed(url, `the server answered ${response.status}`);
    }
    const resumed = response.status === 206 && rangeStart(response) === start;
    if (response.status === 206 && !resumed) {
      await response.body.cancel();
      throw failed(url, "the server sent another part than the one asked for");
    }
    return { start: resumed ? start : 0, chunks: watched(response.body, idle, url) };
  } catch (cause) {
    idle.stop();
    if (cause instanceof SbxError) throw cause;
    throw failed(
      url,
      idle.signal.aborted ? `it was silent for ${IDLE_MS / 1000} s` : "there is no connection",
      cause,
    );
  }
}

async function* watched(body: ReadableStream<Uint8Array>, idle: Idle, url: URL): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of body) {
      idle.touch();
      yield chunk;
    }
  } catch (cause) {
    throw failed(
      url,
      idle.signal.aborted ? `it was silent for ${IDLE_MS / 1000} s` : "the connection broke",
      cause,
    );
  } finally {
    idle.stop();
  }
}

function rangeStart(response: Response): number {
  return Number(response.headers.get("content-range")?.match(/^bytes (\d+)-/)?.[1] ?? NaN);
}

/** Aborts when it has not been touched for {@linkcode IDLE_MS}. */
class Idle {
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

function failed(url: URL, why: string, cause?: unknown): SbxError {
  return new SbxError("assets.download_failed", `${shown(url)} could not be fetched: ${why}`, {
    cause,
    hint: "try again: what has already come is kept, and the installed assets are as they were",
  });
}

/** An address without a password or query, which may be secret. */
export function shown(url: URL): string {
  const { protocol, host, pathname } = url;
  return `${protocol}//${host}${pathname}`;
}
