import { asSbxError, errorBody } from "../../lib/base/error/mod.ts";
import type { Send } from "../../lib/service/mod.ts";

/**
 * Answers with a stream of server-sent events. A failure becomes an `error` event, as the status is already
 * sent.
 *
 * @param produce runs until the stream is complete; `gone` aborts when the client leaves
 */
export function eventStream(produce: (send: Send, gone: AbortSignal) => Promise<void>): Response {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const gone = new AbortController();
  writer.closed.catch(() => gone.abort());
  const encoder = new TextEncoder();
  const send: Send = (event, data) =>
    writer.write(encoder.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`));
  produce(send, gone.signal)
    .catch((error) => send("error", errorBody(asSbxError(error, "the request"))))
    .catch(() => {})
    .finally(() => writer.close().catch(() => {}));
  return new Response(readable, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
  });
}

/** Checks for a client that reads a stream of events (docs/design/contracts/02-http.md §2). */
export function acceptsEvents(request: Request): boolean {
  return request.headers.get("accept")?.includes("text/event-stream") ?? false;
}
