import { SbxError } from "../base/error/mod.ts";

/** Bytes that a request's body may have (contracts.md §2). */
export const BODY_MAX = 10 * 1024 * 1024;
/** Bodies up to this size are read whole and sent in one piece. */
export const BUFFERED_MAX = 64 * 1024;

/** A request's body: its bytes, or a stream of them with their number when it is known. */
export type RequestBody = Uint8Array | { length?: number; chunks: AsyncIterable<Uint8Array> };

/**
 * The body of `request`, counted while it comes.
 *
 * @throws SbxError `request.invalid` when its length is said twice; `request.too_large`, here or while the chunks are read
 */
export async function requestBody(request: Request): Promise<RequestBody | undefined> {
  if (request.body === null) return undefined;
  const declared = request.headers.get("content-length");
  // Deno 2.9 refuses such a request itself; 2.7 does not.
  if (declared !== null && request.headers.has("transfer-encoding")) {
    throw new SbxError("request.invalid", "the request says in two ways how long its body is", {
      hint: "send Content-Length or Transfer-Encoding, not both",
    });
  }
  const length = declared === null ? undefined : Number(declared);
  if (length !== undefined && length > BODY_MAX) throw tooLarge();
  const chunks = counted(request.body);
  if (length === undefined || length > BUFFERED_MAX) return { length, chunks };
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return at === length ? bytes : bytes.subarray(0, at);
}

async function* counted(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > BODY_MAX) throw tooLarge();
    yield chunk;
  }
}

function tooLarge(): SbxError {
  return new SbxError("request.too_large", `the request's body is over ${BODY_MAX / 1024 / 1024} MiB`, {
    hint: "put large files into the VM's workspace folder on the host (sbx info shows it)",
  });
}
