import { acceptAll } from "../../base/accept/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { backgroundDelay, timeLimit } from "../../base/time/mod.ts";
import { FRAME_LIMIT, FrameChannel } from "../../base/wire/mod.ts";
import { greet } from "./hello.ts";
import { Call, Input, type Reply, REPLY_FRAME_LIMIT } from "./schema.ts";

/** Longest wait for pending replies at the close, in `ms`. */
const CLOSE_DEADLINE_MS = timeLimit(1000);

/** The service's end of one call. */
export interface Caller<R extends Reply = Reply> {
  reply(reply: R): Promise<void>;
  /** @returns the next input, or null once the caller is gone */
  input(): Promise<Input | null>;
}

type Handler = (call: Call, caller: Caller) => Promise<void>;

/** Serves calls on a UDS until the listener is closed. */
export class CallServer {
  readonly #listener: Deno.Listener;
  readonly #pending = new Set<Promise<void>>();

  constructor(listener: Deno.Listener, handle: Handler) {
    this.#listener = listener;
    this.#accept(handle);
  }

  /** Accepts no more calls, and waits for the replies to those under way. */
  async close(): Promise<void> {
    this.#listener.close();
    await Promise.race([Promise.all(this.#pending), backgroundDelay(CLOSE_DEADLINE_MS)]);
  }

  async #accept(handle: Handler): Promise<void> {
    for await (const conn of acceptAll(this.#listener)) {
      const call = serveCall(new FrameChannel(conn, FRAME_LIMIT, FRAME_LIMIT, REPLY_FRAME_LIMIT), handle);
      this.#pending.add(call);
      call.finally(() => this.#pending.delete(call));
    }
  }
}

async function serveCall(channel: FrameChannel, handle: Handler): Promise<void> {
  const reply = (message: Reply) => channel.send(message);
  try {
    await greet(channel);
    await handle(Call.parse(await channel.next()), {
      reply,
      input: async () => {
        const frame = await channel.next().catch(() => null);
        return frame === null ? null : Input.parse(frame);
      },
    });
  } catch (cause) {
    const { code, message, hint } = asSbxError(cause, "a call to the VM's process");
    await reply({ t: "Failed", code, message, hint }).catch(() => {});
  } finally {
    await channel.finish();
    channel.close();
  }
}
