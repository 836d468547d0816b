import { ignore, type SbxError } from "../../base/error/mod.ts";
import { backgroundTimeout, timeLimit } from "../../base/time/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { HostMessage } from "./wire/mod.ts";

/** Output replayed to a newly attached client, in `bytes` (docs/design/contracts/02-http.md §2). */
const REPLAY_BYTES = 64 * 1024;
const CHUNK = 32 * 1024;
/** Time for the last output of a program that has exited: its connection's end may get lost, in `ms`. */
const LAST_OUTPUT_MS = timeLimit(1000);
/** Time for the guest to close a terminal that was hung up, in `ms`. */
const CLOSE_MS = timeLimit(10_000);

/** A program with a terminal of its own. */
export type TerminalProgram = Pick<Extract<HostMessage, { t: "Exec" }>, "argv" | "cwd" | "user" | "env">;

/** A shell terminal whose program outlives its link. */
export interface ShellState {
  id: string;
  /** its last output */
  replay: Uint8Array<ArrayBuffer>;
}

/** Client attached to a terminal. */
export interface Viewer {
  write(bytes: Uint8Array): Promise<void>;
  /** @param reason why it ended before its program */
  end(reason?: SbxError): void;
}

/** Pseudo-terminal of the guest with any number of viewers; it stays open without any. */
export class Terminal {
  readonly id: string;
  ended = false;
  /** exit code of its program, once its output is complete; undefined when the guest was lost before */
  readonly exit: Promise<number | undefined>;
  /** process of its program in the guest */
  readonly pid: Promise<number>;
  #pid = Promise.withResolvers<number>();
  #exit = Promise.withResolvers<number | undefined>();
  #exitCode: number | undefined;
  #send: (message: HostMessage) => Promise<void>;
  #conn: Deno.Conn | undefined;
  #connected = Promise.withResolvers<void>();
  #viewers = new Set<Viewer>();
  #replay: Uint8Array<ArrayBuffer>;

  /** @param replay the last output of an earlier link */
  constructor(
    id: string,
    send: (message: HostMessage) => Promise<void>,
    replay: Uint8Array<ArrayBuffer> = new Uint8Array(0),
  ) {
    this.id = id;
    this.#replay = replay;
    this.#send = send;
    this.exit = this.#exit.promise;
    this.pid = this.#pid.promise;
  }

  /** Reports the process of its program, which the guest has started. */
  started(pid: number): void {
    this.#pid.resolve(pid);
  }

  /** Replays the last output to a viewer, then sends it new output. */
  async attach(viewer: Viewer): Promise<void> {
    if (this.#replay.length > 0) await viewer.write(this.#replay);
    if (this.ended) return viewer.end();
    this.#viewers.add(viewer);
  }

  get isWatched(): boolean {
    return this.#viewers.size > 0;
  }

  /** The last output. */
  get replay(): Uint8Array<ArrayBuffer> {
    return this.#replay;
  }

  detach(viewer: Viewer): void {
    this.#viewers.delete(viewer);
  }

  /** Sends the user's input; waits until the guest has opened the terminal. */
  async type(bytes: Uint8Array): Promise<void> {
    await this.#connected.promise;
    if (this.#conn && !this.ended) await writeAll(this.#conn, bytes).catch(() => this.end());
  }

  async resize(cols: number, rows: number): Promise<void> {
    if (!this.ended) await this.#send({ t: "PtyResize", id: this.id, cols, rows });
  }

  /** Relays the guest's output to the viewers until the guest closes. Only the first connection counts. */
  async serve(conn: Deno.Conn, first: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.#conn) return;
    this.#conn = conn;
    this.#connected.resolve();
    if (first.length > 0) await this.#broadcast(first);
    const chunk = new Uint8Array(CHUNK);
    for (let read = await conn.read(chunk); read !== null; read = await conn.read(chunk)) {
      await this.#broadcast(chunk.slice(0, read));
    }
    this.end();
  }

  /** Reports the end of its program. The terminal ends once the output under way has arrived. */
  exited(code: number): void {
    this.#exitCode = code;
    if (this.ended) this.#exit.resolve(code);
    else if (this.#conn) backgroundTimeout(() => this.end(), LAST_OUTPUT_MS);
    else this.end();
  }

  /**
   * Ends the program by closing its terminal, as a closed window does. Output is taken, and dropped, until
   * the guest has closed the connection: a vhost-user vsock may lose the end of one with bytes under way.
   */
  async hangUp(): Promise<void> {
    if (this.ended) return;
    this.end();
    await this.#send({ t: "PtyClose", id: this.id }).catch(
      ignore("the guest is lost, and the terminal with it"),
    );
    backgroundTimeout(() => this.#close(), CLOSE_MS);
  }

  /** Ends the program, as a cancelled `sbx exec` does; its last output still comes. */
  async kill(): Promise<void> {
    if (!this.ended) await this.#send({ t: "ExecKill", id: this.id });
  }

  /** Ends without an exit code: the guest is lost. */
  lose(): void {
    this.end();
    this.#exit.resolve(undefined);
  }

  /** Detaches all viewers, with the reason of an early end. Its program may run on. */
  end(reason?: SbxError): void {
    if (this.ended) return;
    this.ended = true;
    this.#connected.resolve();
    if (this.#exitCode !== undefined) this.#exit.resolve(this.#exitCode);
    for (const viewer of this.#viewers) viewer.end(reason);
    this.#viewers.clear();
  }

  #close(): void {
    try {
      this.#conn?.close();
    } catch {
      // the guest closed it first
    }
  }

  async #broadcast(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.ended) return;
    const output = new Uint8Array(this.#replay.length + bytes.length);
    output.set(this.#replay);
    output.set(bytes, this.#replay.length);
    this.#replay = output.slice(-REPLAY_BYTES);
    await Promise.all(
      [...this.#viewers].map((viewer) => viewer.write(bytes).catch(() => this.detach(viewer))),
    );
  }
}
