/** Documents without a known size: they are read whole, up to a limit. */
import { joinBytes } from "../bytes/mod.ts";
import { SbxError } from "../error/mod.ts";
import { displayUrl } from "./address.ts";
import { type FetchOptions, openSource } from "./source.ts";

/**
 * Fetches a document into memory.
 *
 * @param limit most `bytes`
 * @returns null when nothing exists at `url`
 * @throws {SbxError} `assets.download_failed`; `assets.too_large`
 */
export async function fetchSmall(
  url: URL,
  limit: number,
  options: FetchOptions = {},
): Promise<Uint8Array<ArrayBuffer> | null> {
  const source = await openSource(url, { start: 0 }, options);
  if (!source) return null;
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const chunk of source.chunks) {
    size += chunk.length;
    if (size > limit) {
      throw new SbxError("assets.too_large", `${displayUrl(url)} has more than ${limit} bytes`, {
        hint: "check the address; what is installed is unchanged",
      });
    }
    chunks.push(chunk);
  }
  return joinBytes(chunks);
}
