import { asSbxError } from "../base/error/mod.ts";
import { FrameChannel } from "../base/wire/mod.ts";
import { greet } from "./hello.ts";
import { Call, Input, type Reply } from "./schema.ts";

/** How long an answer may take to leave once nothing more is taken. */
const CLOSE_DEADLINE_MS = 1000;

/** The process's side of one call. */
export interface Caller {
  reply(reply: Reply): Promise<void>;
  /** the caller's next input, or null when it is gone */
  input(): Promise<Input | null>;
}

/** Serves calls on a UDS that only this user may open, until the listener is closed. */
export class CallServer {
  #listener: Deno.Listener;
  #answering = new Set<Promise<void>>();

  constructor(listener: Deno.Listener, handle: (call: Call, caller: Caller) => Promise<void>) {
    this.#listener = listener;
    this.#accept(handle);
  }

  /** Takes no more calls and waits until those under way are answered. */
  async close(): Promise<void> {
    this.#listener.close();
    const late = new Promise((resolve) =>
      Deno.unrefTimer(setTimeout(resolve, CLOSE_DEADLINE_MS) as unknown as number)
    );
    await Promise.race([Promise.all(this.#answering), late]);
  }

  async #accept(handle: (call: Call, caller: Caller) => Promise<void>): Promise<void> {
    for await (const conn of this.#listener) {
      const answered = serveOne(new FrameChannel(conn), handle);
      this.#answering.add(answered);
      answered.finally(() => this.#answering.delete(answered));
    }
  }
}

async function serveOne(
  channel: FrameChannel,
  handle: (call: Call, caller: Caller) => Promise<void>,
): Promise<void> {
  const reply = (message: Reply) => channel.send(message);
  try {
    await greet(channel);
    const call = Call.parse(await channel.next());
    await handle(call, {
      reply,
      input: async () => {
        const frame = await channel.next().catch(() => null);
        return frame === null ? null : Input.parse(frame);
      },
    });
  } catch (cause) {
    const error = asSbxError(cause, "a call to the VM's process");
    await reply({ t: "Failed", code: error.code, message: error.message, hint: error.hint }).catch(() => {});
  } finally {
    await channel.finish();
    channel.close();
  }
}
