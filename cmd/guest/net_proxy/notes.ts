import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { connectHost, type Note, PORTS } from "../../../lib/guest/wire/mod.ts";

/** Connection for notes to the host about streams and refused packets. */
export class Notes {
  #channel?: Promise<FrameChannel>;

  /** @throws {Error} the host is not reachable; the next note connects again */
  async send(note: Note): Promise<void> {
    const channel = this.#channel ??= connectHost(PORTS.tcp).then((conn) => new FrameChannel(conn));
    try {
      await (await channel).send(note);
    } catch (error) {
      if (this.#channel === channel) this.#channel = undefined;
      throw error;
    }
  }
}
