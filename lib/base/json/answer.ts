import { joinBytes } from "../bytes/mod.ts";
import { isDeeper } from "./parse.ts";

/**
 * Reads a small answer of JSON whole, from a server that may lie about it.
 *
 * @param limits most bytes, and most levels
 * @param fail makes the error of a problem, such as `exceeds 1024 bytes`
 */
export async function readAnswer(
  { body }: Response,
  limits: { bytes: number; depth: number },
  fail: (problem: string) => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > limits.bytes) throw fail(`exceeds ${limits.bytes} bytes`);
    chunks.push(chunk);
  }
  const bytes = joinBytes(chunks);
  if (isDeeper(new TextDecoder().decode(bytes), limits.depth)) {
    throw fail(`is nested deeper than ${limits.depth} levels`);
  }
  return bytes;
}
