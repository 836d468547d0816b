import { asSbxError } from "../error/mod.ts";
import { FrameChannel } from "../wire/mod.ts";
import { greet } from "./hello.ts";
import { Call, Input, type Reply } from "./schema.ts";

/** The process's side of one call. */
export interface Caller {
  reply(reply: Reply): Promise<void>;
  /** the caller's next input, or null when it is gone */
  input(): Promise<Input | null>;
}

/** Serves calls on a UDS that only this user may open, until it is closed. */
export async function serveCalls(
  listener: Deno.Listener,
  handle: (call: Call, caller: Caller) => Promise<void>,
): Promise<void> {
  for await (const conn of listener) serveOne(new FrameChannel(conn), handle);
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
