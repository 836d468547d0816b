/** QEMU machine protocol: one JSON message per line. */
import { ignore } from "../../base/error/mod.ts";

/** Event of QEMU. */
export interface QmpEvent {
  event: string;
  data?: Record<string, unknown>;
}

/** Connection to a machine's monitor, which accepts one at a time. */
export class Qmp {
  #conn: Deno.Conn;
  /** commands without an answer; QEMU answers in order */
  #unanswered: PromiseWithResolvers<unknown>[] = [];
  #greeting = Promise.withResolvers<void>();
  #onEvent: (event: QmpEvent) => void;
  /** waits for events that have not come yet */
  #awaited = new Set<{ matches(event: QmpEvent): boolean; found: PromiseWithResolvers<QmpEvent> }>();
  #closed = false;

  private constructor(conn: Deno.Conn, onEvent: (event: QmpEvent) => void) {
    this.#conn = conn;
    this.#onEvent = onEvent;
    this.#read().catch(ignore("its end fails everything that waits")).finally(() => this.#end());
  }

  /** @param onEvent receiver of events; must not throw */
  static async connect(path: string, onEvent: (event: QmpEvent) => void = () => {}): Promise<Qmp> {
    const qmp = new Qmp(await Deno.connect({ transport: "unix", path }), onEvent);
    await qmp.#greeting.promise;
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @returns QEMU's answer @throws {Error} QEMU's message when it refuses the command */
  async execute(command: string, args: Record<string, unknown> = {}): Promise<unknown> {
    if (this.#closed) throw gone();
    const answer = Promise.withResolvers<unknown>();
    this.#unanswered.push(answer);
    const line = new TextEncoder().encode(JSON.stringify({ execute: command, arguments: args }) + "\n");
    // A line is short enough for one write.
    this.#conn.write(line).catch((error) => answer.reject(error));
    return await answer.promise;
  }

  /** The next event that matches. @throws {Error} the machine ended first */
  until(matches: (event: QmpEvent) => boolean): Promise<QmpEvent> {
    if (this.#closed) return Promise.reject(gone());
    const found = Promise.withResolvers<QmpEvent>();
    this.#awaited.add({ matches, found });
    found.promise.catch(ignore("callers that await it have the failure"));
    return found.promise;
  }

  async #read(): Promise<void> {
    const lines = this.#conn.readable.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream());
    for await (const line of lines) {
      const message = JSON.parse(line);
      if ("QMP" in message) this.#greeting.resolve();
      else if ("event" in message) this.#tell(message);
      else if (message.error) this.#unanswered.shift()?.reject(new Error(message.error.desc));
      else if ("return" in message) this.#unanswered.shift()?.resolve(message.return);
    }
  }

  #tell(event: QmpEvent): void {
    this.#onEvent(event);
    for (const each of this.#awaited) {
      if (!each.matches(event)) continue;
      this.#awaited.delete(each);
      each.found.resolve(event);
    }
  }

  #end(): void {
    this.#closed = true;
    const error = gone();
    for (const { reject } of this.#unanswered.splice(0)) reject(error);
    for (const { found } of this.#awaited) found.reject(error);
    this.#awaited.clear();
    this.#greeting.promise.catch(ignore("only connect waits for it"));
    this.#greeting.reject(error);
  }
}

function gone(): Error {
  return new Error("the machine has ended");
}

/** Splits text into lines, without line endings. */
export class TextLineStream extends TransformStream<string, string> {
  constructor() {
    let rest = "";
    super({
      transform(chunk, controller) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop()!;
        for (const line of lines) controller.enqueue(line.replace(/\r$/, ""));
      },
      flush(controller) {
        if (rest) controller.enqueue(rest);
      },
    });
  }
}
