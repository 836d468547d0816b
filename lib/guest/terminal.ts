import { writeAll } from "../base/wire/mod.ts";
import type { HostMessage } from "./messages.ts";

/** Bytes of output that a newly attached client is shown again (contracts.md §2). */
export const REPLAY_BYTES = 64 * 1024;
const CHUNK = 32 * 1024;

/** One who looks at a terminal. */
export interface Viewer {
  write(bytes: Uint8Array): Promise<void>;
  end(): void;
}

/** A pseudo-terminal of the guest, seen by any number of viewers; it lives on while nobody looks. */
export class Terminal {
  readonly id: number;
  ended = false;
  #send: (message: HostMessage) => Promise<void>;
  #conn: Deno.Conn | undefined;
  #connected = Promise.withResolvers<void>();
  #viewers = new Set<Viewer>();
  #replay = new Uint8Array(0);

  constructor(id: number, send: (message: HostMessage) => Promise<void>) {
    this.id = id;
    this.#send = send;
  }

  /** Shows what was printed last, then what comes. */
  async attach(viewer: Viewer): Promise<void> {
    if (this.#replay.length > 0) await viewer.write(this.#replay);
    if (this.ended) return viewer.end();
    this.#viewers.add(viewer);
  }

  detach(viewer: Viewer): void {
    this.#viewers.delete(viewer);
  }

  /** What the user types; the first keys wait until the guest has opened the terminal. */
  async type(bytes: Uint8Array): Promise<void> {
    await this.#connected.promise;
    if (this.#conn && !this.ended) await writeAll(this.#conn, bytes).catch(() => this.end());
  }

  async resize(cols: number, rows: number): Promise<void> {
    if (!this.ended) await this.#send({ t: "PtyResize", id: this.id, cols, rows });
  }

  /** Carries the guest's bytes to the viewers until the guest closes. */
  async serve(conn: Deno.Conn, first: Uint8Array<ArrayBuffer>): Promise<void> {
    this.#conn = conn;
    this.#connected.resolve();
    if (first.length > 0) await this.#show(first);
    const chunk = new Uint8Array(CHUNK);
    for (let read = await conn.read(chunk); read !== null; read = await conn.read(chunk)) {
      await this.#show(chunk.slice(0, read));
    }
    this.end();
  }

  /** Ends a program that nobody can come back to, as a closed window does. */
  hangUp(): void {
    this.end();
    try {
      this.#conn?.close();
    } catch {
      // the guest closed it first
    }
  }

  end(): void {
    if (this.ended) return;
    this.ended = true;
    this.#connected.resolve();
    for (const viewer of this.#viewers) viewer.end();
    this.#viewers.clear();
  }

  async #show(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const joined = new Uint8Array(this.#replay.length + bytes.length);
    joined.set(this.#replay);
    joined.set(bytes, this.#replay.length);
    this.#replay = joined.slice(-REPLAY_BYTES);
    await Promise.all(
      [...this.#viewers].map((viewer) => viewer.write(bytes).catch(() => this.detach(viewer))),
    );
  }
}
