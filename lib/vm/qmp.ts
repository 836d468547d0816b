/** QEMU's machine protocol, as far as a machine's life needs it: a line of JSON asks, a line answers, and some lines tell. */
import { TextLineStream } from "./lines.ts";

/** What QEMU tells unasked. */
export interface QmpEvent {
  event: string;
  data?: Record<string, unknown>;
}

/** One connection to a machine's monitor, which takes one at a time. */
export class Qmp {
  #conn: Deno.Conn;
  /** who waits for an answer; QEMU answers in order */
  #asked: PromiseWithResolvers<void>[] = [];
  #greeted = Promise.withResolvers<void>();
  #gone = false;

  private constructor(conn: Deno.Conn, onEvent: (event: QmpEvent) => void) {
    this.#conn = conn;
    this.#read(onEvent).catch(() => {}).finally(() => this.#end());
  }

  /** @param onEvent hears what QEMU tells; it does not throw */
  static async connect(path: string, onEvent: (event: QmpEvent) => void = () => {}): Promise<Qmp> {
    const qmp = new Qmp(await Deno.connect({ transport: "unix", path }), onEvent);
    await qmp.#greeted.promise;
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @throws {Error} with QEMU's words when it refuses */
  async execute(command: string): Promise<void> {
    if (this.#gone) throw new Error("the machine is gone");
    const answer = Promise.withResolvers<void>();
    this.#asked.push(answer);
    const line = new TextEncoder().encode(JSON.stringify({ execute: command }) + "\n");
    // A line is so short that a socket takes it at once.
    this.#conn.write(line).catch((error) => answer.reject(error));
    await answer.promise;
  }

  async #read(onEvent: (event: QmpEvent) => void): Promise<void> {
    const lines = this.#conn.readable.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
    for await (const line of lines) {
      const message = JSON.parse(line);
      if ("QMP" in message) this.#greeted.resolve();
      else if ("event" in message) onEvent(message);
      else if (message.error) this.#asked.shift()?.reject(new Error(message.error.desc));
      else if ("return" in message) this.#asked.shift()?.resolve();
    }
  }

  #end(): void {
    this.#gone = true;
    const error = new Error("the machine is gone");
    for (const { reject } of this.#asked.splice(0)) reject(error);
    this.#greeted.promise.catch(() => {});
    this.#greeted.reject(error);
  }
}
