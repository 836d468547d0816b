/** Session buses that misbehave. */
import { join } from "node:path";

/**
 * `silent` never answers, `closing` ends each connection, `garbage` sends bytes at once, `rejecting` refuses
 * each login without a reason, `mute` logs in and says no more, `broken` logs in and sends what is no
 * message, `late` greets and says no more.
 */
export const ODDITIES = ["silent", "closing", "garbage", "rejecting", "mute", "broken", "late"] as const;
export type Oddity = typeof ODDITIES[number];

/** Answer to the first call, `Hello`: the name `:1.7`. */
const HELLO = Uint8Array.from([
  ...[0x6c, 2, 1, 1, 9, 0, 0, 0, 1, 0, 0, 0, 15, 0, 0, 0],
  ...[5, 1, 0x75, 0, 1, 0, 0, 0, 8, 1, 0x67, 0, 1, 0x73, 0, 0],
  ...[4, 0, 0, 0, 0x3a, 0x31, 0x2e, 0x37, 0],
]);

/** Takes connections at a UNIX socket of its own. */
export class OddBus implements AsyncDisposable {
  readonly address: string;
  readonly #listener: Deno.UnixListener;
  readonly #open = new Set<Deno.UnixConn>();

  private constructor(readonly dir: string, readonly oddity: Oddity) {
    const path = join(dir, "bus");
    this.address = `unix:path=${path}`;
    this.#listener = Deno.listen({ transport: "unix", path });
    this.#serve();
  }

  static async start(oddity: Oddity): Promise<OddBus> {
    return new OddBus(await Deno.makeTempDir({ prefix: "sbx-odd-bus-" }), oddity);
  }

  /** Connections that are open. */
  get open(): number {
    return this.#open.size;
  }

  async #serve(): Promise<void> {
    for await (const connection of this.#listener) {
      this.#open.add(connection);
      this.#answer(connection).catch(() => {}).finally(() => {
        if (this.#open.delete(connection)) connection.close();
      });
    }
  }

  async #answer(connection: Deno.UnixConn): Promise<void> {
    const { oddity } = this;
    const say = (text: string) => connection.write(new TextEncoder().encode(text));
    if (oddity === "closing") return;
    if (oddity === "garbage") await say("\u0000\u001b[2J\r\n\n\nDATA\n".repeat(100));
    const isGreeting = oddity === "mute" || oddity === "broken" || oddity === "late";
    const buffer = new Uint8Array(4096);
    for (let read; (read = await connection.read(buffer)) !== null;) {
      const said = new TextDecoder().decode(buffer.subarray(0, read));
      if (oddity === "rejecting") await say("REJECTED\r\n");
      if (isGreeting && said.includes("AUTH")) await say("OK 0123456789abcdef0123456789abcdef\r\n");
      if (!isGreeting || !said.includes("Hello")) continue;
      if (oddity === "broken") await say("l".repeat(4096));
      if (oddity === "late") await connection.write(HELLO);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const connection of this.#open) connection.close();
    this.#open.clear();
    await Deno.remove(this.dir, { recursive: true });
  }
}
