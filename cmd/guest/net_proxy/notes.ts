import { ignore } from "../../../lib/base/error/mod.ts";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { connectHost, type Note, PORTS, type StreamBlocked } from "../../../lib/machine/guest/wire/mod.ts";

/** An empty note: no stream has this number. It shows the host which connection is for notes. */
const NOTHING: Note = { t: "End", stream: 0, bytes: 0 };

/** Connection for notes to the host about streams and refused packets, and for refusals of the host. */
export class Notes {
  #channel?: Promise<FrameChannel>;
  /** called for a stream that policy refuses */
  onBlocked: (blocked: StreamBlocked) => void = () => {};

  /** Opens the connection, if it is not open. */
  open(): void {
    if (!this.#channel) this.send(NOTHING).catch(ignore("the next note connects again"));
  }

  /** @throws {Error} the host is not reachable; the next note connects again */
  async send(note: Note): Promise<void> {
    const channel = this.#channel ??= this.#connect();
    try {
      await (await channel).send(note);
    } catch (error) {
      this.#lose(channel);
      throw error;
    }
  }

  #connect(): Promise<FrameChannel> {
    const channel = connectHost(PORTS.tcp).then((conn) => new FrameChannel(conn));
    this.#receive(channel).catch(ignore("the next note connects again")).finally(() => this.#lose(channel));
    return channel;
  }

  async #receive(opening: Promise<FrameChannel>): Promise<void> {
    const { reader } = await opening;
    for await (const frame of reader) this.onBlocked(frame as StreamBlocked);
  }

  #lose(channel: Promise<FrameChannel>): void {
    if (this.#channel === channel) this.#channel = undefined;
  }
}
