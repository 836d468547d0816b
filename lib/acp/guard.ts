/**
 * The agent's end of the connection, between its bytes and the SDK: no answer to a question that was not
 * asked, no id that is in use, no flood, and no name of a method that the SDK would print.
 */
import { type AnyMessage, ndJsonStream, RequestError, type Stream } from "@agentclientprotocol/sdk";

/** Most `bytes` of one message of the agent. */
export const GUEST_MESSAGE_MAX = 8 * 1024 * 1024;
/** Most requests of the agent that wait for an answer; further ones are refused. */
export const GUEST_REQUESTS_MAX = 32;
/** Longest id of a request in characters. */
const ID_MAX = 128;
const NOTIFICATIONS = new Set(["session/update", "$/cancel_request"]);

/** Input and output of a program, as bytes. */
export interface Pipes {
  readable: ReadableStream<Uint8Array>;
  writable: WritableStream<Uint8Array>;
}

/**
 * The agent's messages, checked.
 *
 * @param room waits until the editor has taken enough of the agent's messages before
 */
export function guardedStream({ readable, writable }: Pipes, room: () => Promise<void>): Stream {
  const inner = ndJsonStream(writable, readable, { maxMessageBytes: GUEST_MESSAGE_MAX });
  const asked = new Set<unknown>();
  const asking = new Set<unknown>();
  const writer = inner.writable.getWriter();
  const outgoing = new WritableStream<AnyMessage>({
    async write(message) {
      if ("method" in message) {
        if ("id" in message) asked.add(message.id);
      } else asking.delete(message.id);
      await writer.write(message);
    },
    close: () => writer.close(),
    abort: (reason) => writer.abort(reason),
  });
  const reader = inner.readable.getReader();
  const incoming = new ReadableStream<AnyMessage>({
    async pull(controller) {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return controller.close();
        if (!await admits(value)) continue;
        await room();
        return controller.enqueue(value);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
  return { readable: incoming, writable: outgoing };

  async function admits(message: AnyMessage): Promise<boolean> {
    const { id, method } = message as { id?: unknown; method?: unknown };
    if (typeof method !== "string") return asked.delete(id);
    if (!("id" in message)) return NOTIFICATIONS.has(method);
    if (!isId(id) || asking.has(id)) return false;
    if (asking.size < GUEST_REQUESTS_MAX) return asking.add(id), true;
    await writer.write({ jsonrpc: "2.0", id, error: tooMany() });
    return false;
  }
}

function isId(id: unknown): id is string | number {
  return typeof id === "string" ? id.length <= ID_MAX : Number.isSafeInteger(id);
}

function tooMany() {
  return new RequestError(-32000, `sbx: more than ${GUEST_REQUESTS_MAX} requests wait for an answer`)
    .toErrorResponse();
}
