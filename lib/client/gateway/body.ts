import { SbxError } from "../../base/error/mod.ts";

/**
 * `bytes` of a request body (docs/design/contracts/02-http.md §2); a file of a workspace may have any size,
 * since it is never whole in memory.
 */
export const BODY_MAX = 10 * 1024 * 1024;
/** `bytes` up to which a body is read whole and sent in one piece. */
export const BUFFERED_MAX = 64 * 1024;

/** Body of a request: its bytes, or a stream with the length if it is known. */
export type RequestBody = Uint8Array | { length?: number; chunks: AsyncIterable<Uint8Array> };

/**
 * Reads the body of a request and limits its size.
 *
 * @param max most `bytes`
 * @throws {SbxError} `request.invalid`: two lengths; `request.too_large`, here or while the chunks are read
 */
export async function requestBody(request: Request, max = BODY_MAX): Promise<RequestBody | undefined> {
  if (request.body === null) return undefined;
  const declared = request.headers.get("content-length");
  // Deno 2.9 rejects such a request itself; 2.7 does not.
  if (declared !== null && request.headers.has("transfer-encoding")) {
    throw new SbxError("request.invalid", "the request has both Content-Length and Transfer-Encoding", {
      hint: "send only one of them",
    });
  }
  const length = declared === null ? undefined : Number(declared);
  if (length !== undefined && length > max) throw tooLarge(max);
  const chunks = limitSize(request.body, max);
  if (length === undefined || length > BUFFERED_MAX) return { length, chunks };
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return at === length ? bytes : bytes.subarray(0, at);
}

async function* limitSize(body: ReadableStream<Uint8Array>, max: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > max) throw tooLarge(max);
    yield chunk;
  }
}

function tooLarge(max: number): SbxError {
  return new SbxError("request.too_large", `the request body exceeds ${max / 1024 / 1024} MiB`, {
    hint: "sbx cp SRC DST copies files of any size into a VM",
  });
}
