import { FrameChannel } from "../../../lib/base/wire/channel.ts";
import { type End, PORTS, type Refused } from "../../../lib/guest/messages.ts";
import { connectHost } from "./host.ts";

/** The connection on which the host is told what no stream can say of itself. */
export class Notes {
  #channel?: Promise<FrameChannel>;

  /** @throws {Error} when the host is not there; the next note tries again */
  async tell(note: End | Refused): Promise<void> {
    const channel = this.#channel ??= connectHost(PORTS.tcp).then((conn) => new FrameChannel(conn));
    try {
      await (await channel).send(note);
    } catch (error) {
      if (this.#channel === channel) this.#channel = undefined;
      throw error;
    }
  }
}
