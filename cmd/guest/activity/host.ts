/** The conversation with the host: its keys and orders, and the reports to it. */
import { ignore } from "../../../lib/base/error/mod.ts";
import { closeQuietly, encodeFrame, writeAll } from "../../../lib/base/wire/mod.ts";
import {
  ACTIVITY_LIMITS,
  type ActivityFrame,
  type ActivityHello,
} from "../../../lib/machine/guest/wire/mod.ts";
import { listeningPorts, type RunningProcess } from "./proc.ts";

const decoder = new TextDecoder();

/** Keys from sbx-pty-agent, which has them from the host. */
export class Keys {
  readonly #pipe: Promise<Deno.FsFile>;
  readonly #bytes = new Uint8Array(4096);
  #text = "";
  #agent = 0;

  /** @param path of the pipe that the agent writes them to */
  constructor(path: string) {
    this.#pipe = Deno.open(path);
  }

  /** Process of the agent. */
  get agent(): number {
    return this.#agent;
  }

  /** Waits for a key; of several only the last one is still good. */
  async next(): Promise<string> {
    while (!this.#text.endsWith("\n")) {
      const read = await (await this.#pipe).read(this.#bytes);
      if (read === null) throw new Error("sbx-pty-agent has ended");
      this.#text += decoder.decode(this.#bytes.subarray(0, read));
    }
    const [key, agent] = this.#text.trimEnd().split("\n").at(-1)!.split(" ");
    this.#text = "";
    this.#agent = Number(agent);
    return key;
  }
}

/** Most `bytes` of one write. */
const WRITE_BYTES = 64 * 1024;

/** Reports for the host, kept while it is away. */
export class Reports {
  readonly #hasFiles: boolean;
  #waiting: ActivityFrame[] = [];
  /** ports that were reported to the host */
  readonly #ports = new Set<number>();
  #conn?: Deno.Conn;
  /** settles when there is a host again */
  #host = Promise.withResolvers<void>();
  #written: Promise<unknown> = Promise.resolve();

  /** @param hasFiles operations on files are reported too */
  constructor(hasFiles: boolean) {
    this.#hasFiles = hasFiles;
  }

  add(report: ActivityFrame): void {
    this.#waiting.push(report);
  }

  lose(why: string): void {
    this.#waiting.push({ t: "Gap", why: why.slice(0, ACTIVITY_LIMITS.characters) });
  }

  /** Sends to the current host, ahead of the waiting reports; a later host has to ask for it. */
  send(frame: ActivityFrame): void {
    const conn = this.#conn;
    if (conn) {
      this.#write(conn, encodeFrame("argv" in frame ? cut(frame) : frame)).catch(
        ignore("the host has left; the next one asks again"),
      );
    }
  }

  /** A program listens on a port; reported to the host once. */
  listens(port: number): void {
    // An unbound socket has no port yet.
    if (port === 0 || this.#ports.has(port)) return;
    this.#ports.add(port);
    this.#waiting.push({ t: "Listen", port });
  }

  /** Says to another host that its key has arrived. */
  async greet(conn: Deno.Conn, key: string): Promise<void> {
    closeQuietly(this.#conn);
    await this.#write(conn, encodeFrame({ t: "Activity", key } satisfies ActivityHello));
  }

  /**
   * Sends to a host from now on; the host knows no process yet.
   *
   * @param running processes, except new ones whose begin is reported next
   */
  async sendTo(conn: Deno.Conn, running: readonly RunningProcess[]): Promise<void> {
    const frames: ActivityFrame[] = [
      ...running.slice(0, ACTIVITY_LIMITS.processes).map((process) => ({
        t: "Process" as const,
        ...cut(process),
      })),
      { t: "Started", processes: running.length, files: this.#hasFiles },
    ];
    for (const frame of frames) await this.#write(conn, encodeFrame(frame));
    this.#ports.clear();
    for (const port of listeningPorts()) this.listens(port);
    this.#conn = conn;
    this.#host.resolve();
  }

  /**
   * Sends what waits. Where that fails it waits for the next host, who may get
   * something twice, but misses nothing.
   */
  async flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const conn = this.#conn;
      if (!conn) {
        await this.#host.promise;
        continue;
      }
      try {
        const { bytes, count } = encodeSome(this.#waiting);
        await this.#write(conn, bytes);
        this.#waiting.splice(0, count);
      } catch {
        if (this.#conn !== conn) continue;
        this.#conn = undefined;
        this.#host = Promise.withResolvers();
      }
    }
  }

  /** Writes in turn: bytes sent early must not end up within a frame. */
  #write(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
    const writing = this.#written.then(() => writeAll(conn, bytes));
    this.#written = writing.catch(ignore("its writer has the error"));
    return writing;
  }
}

/** As many frames as are written in one piece. */
function encodeSome(frames: readonly ActivityFrame[]): { bytes: Uint8Array; count: number } {
  const bytes = new Uint8Array(WRITE_BYTES);
  let length = 0, count = 0;
  for (const frame of frames) {
    const next = encodeFrame("argv" in frame ? cut(frame) : frame);
    if (length + next.length > WRITE_BYTES) break;
    bytes.set(next, length);
    length += next.length;
    count++;
  }
  return { bytes: bytes.subarray(0, length), count };
}

/** Cuts texts to the host's limits. */
function cut<T extends { executable: string; argv: string[]; cwd: string }>(program: T): T {
  const { characters, argvCharacters } = ACTIVITY_LIMITS;
  let left = argvCharacters;
  const argv: string[] = [];
  for (const argument of program.argv) {
    if (left <= 0) break;
    argv.push(argument.slice(0, left));
    left -= argument.length + 1;
  }
  return {
    ...program,
    executable: program.executable.slice(0, characters),
    cwd: program.cwd.slice(0, characters),
    argv,
    ...left < 0 && { truncated: true },
  };
}

/**
 * Carries out a host's orders until it leaves; another one will come. A failed order is reported, and the
 * next one taken.
 *
 * @param orders null: the host has left
 */
export async function obey(
  orders: { next(): Promise<unknown | null> },
  take: (order: unknown) => Promise<void>,
): Promise<void> {
  const next = () => orders.next().catch(() => null);
  for (let order = await next(); order !== null; order = await next()) {
    await take(order).catch((error) => console.error("sbx-activity: an order failed:", error));
  }
}
