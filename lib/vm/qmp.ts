/** QEMU's machine protocol, as far as a machine's life needs it: a line of JSON asks, a line answers. */
import { TextLineStream } from "./lines.ts";

export class Qmp {
  #conn: Deno.Conn;
  #lines: AsyncIterator<string>;

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
    this.#lines = conn.readable.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())
      [Symbol.asyncIterator]();
  }

  static async connect(path: string): Promise<Qmp> {
    const qmp = new Qmp(await Deno.connect({ transport: "unix", path }));
    await qmp.#lines.next(); // its greeting
    await qmp.execute("qmp_capabilities");
    return qmp;
  }

  /** @throws {Error} with QEMU's words when it refuses */
  async execute(command: string): Promise<void> {
    const writer = this.#conn.writable.getWriter();
    await writer.write(new TextEncoder().encode(JSON.stringify({ execute: command }) + "\n"));
    writer.releaseLock();
    while (true) {
      const { value, done } = await this.#lines.next();
      if (done) throw new Error("the machine is gone");
      const answer = JSON.parse(value);
      if (answer.error) throw new Error(answer.error.desc);
      if ("return" in answer) return;
    }
  }
}
