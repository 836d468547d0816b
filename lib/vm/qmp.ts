/** QEMU machine protocol, reduced to commands without arguments and events: one JSON message per line. */
import { TextLineStream } from "./lines.ts";

/** Event of QEMU. */
export interface QmpEvent {
  event: string;
  data?: Record<string, unknown>;
}

/** Connection to a machine's monitor, which accepts one at a time. */
export class Qmp {
  #conn: Deno.Conn;
  /** commands without an answer; QEMU answers in order */
  #unanswered: PromiseWithResolvers<void>[] = [];
  #greeting = Promise.withResolvers<void>();
  #closed = false;

  private constructor(conn: Deno.Conn, onEvent: (event: QmpEvent) => void) {
    this.#conn = conn;
    this.#read(onEvent).catch(() => {}).finally(() => this.#end());
  }

  /** @param onEvent receiver of events; must not throw */
  static async connect(path: string, onEvent: (event: QmpEvent) => void = () => {}): Promise<Qmp> {
    const qmp = new Qmp(await Deno.connect({ transport: "unix", path }), onEvent);
    await qmp.#greeting.promise;
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @throws {Error} QEMU's message when it refuses the command */
  async execute(command: string): Promise<void> {
    if (this.#closed) throw new Error("the machine has ended");
    const answer = Promise.withResolvers<void>();
    this.#unanswered.push(answer);
    const line = new TextEncoder().encode(JSON.stringify({ execute: command }) + "\n");
    // A line is short enough for one write.
    this.#conn.write(line).catch((error) => answer.reject(error));
    await answer.promise;
  }

  async #read(onEvent: (event: QmpEvent) => void): Promise<void> {
    const lines = this.#conn.readable.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
    for await (const line of lines) {
      const message = JSON.parse(line);
      if ("QMP" in message) this.#greeting.resolve();
      else if ("event" in message) onEvent(message);
      else if (message.error) this.#unanswered.shift()?.reject(new Error(message.error.desc));
      else if ("return" in message) this.#unanswered.shift()?.resolve();
    }
  }

  #end(): void {
    this.#closed = true;
    const error = new Error("the machine has ended");
    for (const { reject } of this.#unanswered.splice(0)) reject(error);
    this.#greeting.promise.catch(() => {});
    this.#greeting.reject(error);
  }
}
