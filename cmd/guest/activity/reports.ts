import { closeQuietly, encodeFrame, writeAll } from "../../../lib/base/wire/mod.ts";
import type { ActivityFrame, ActivityHello } from "../../../lib/guest/wire/mod.ts";
import { ACTIVITY_LIMITS } from "../../../lib/guest/wire/mod.ts";
import { runningProcesses } from "./proc.ts";

/** Most `bytes` of one write. */
const WRITE_BYTES = 64 * 1024;

/** Reports for the host, kept while it is away. */
export class Reports {
  #waiting: ActivityFrame[] = [];
  #conn?: Deno.Conn;
  /** settles when there is a host again */
  #host = Promise.withResolvers<void>();

  add(report: ActivityFrame): void {
    this.#waiting.push(report);
  }

  lose(why: string): void {
    this.#waiting.push({ t: "Gap", why: why.slice(0, ACTIVITY_LIMITS.characters) });
  }

  /** Sends to another host from here on, which knows no process yet. */
  async sendTo(conn: Deno.Conn, key: string): Promise<void> {
    closeQuietly(this.#conn);
    const running = runningProcesses();
    const frames: (ActivityHello | ActivityFrame)[] = [
      { t: "Activity", key },
      ...running.slice(0, ACTIVITY_LIMITS.processes).map((process) => ({
        t: "Process" as const,
        ...cut(process),
      })),
      { t: "Started", processes: running.length },
    ];
    for (const frame of frames) await writeAll(conn, encodeFrame(frame));
    this.#conn = conn;
    this.#host.resolve();
  }

  /** Sends what waits. Where that fails it waits for the next host, who may get something twice, but misses nothing. */
  async flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const conn = this.#conn;
      if (!conn) {
        await this.#host.promise;
        continue;
      }
      try {
        const sent = await writeSome(conn, this.#waiting);
        this.#waiting.splice(0, sent);
      } catch {
        if (this.#conn !== conn) continue;
        this.#conn = undefined;
        this.#host = Promise.withResolvers();
      }
    }
  }
}

/** Writes frames in one piece. @returns how many */
async function writeSome(conn: Deno.Conn, frames: ActivityFrame[]): Promise<number> {
  const bytes = new Uint8Array(WRITE_BYTES);
  let length = 0, count = 0;
  for (const frame of frames) {
    const next = encodeFrame("argv" in frame ? cut(frame) : frame);
    if (length + next.length > WRITE_BYTES) break;
    bytes.set(next, length);
    length += next.length;
    count++;
  }
  await writeAll(conn, bytes.subarray(0, length));
  return count;
}

/** Cuts texts to what the host takes. */
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
