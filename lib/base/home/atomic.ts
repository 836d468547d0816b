import { dirname, join } from "node:path";
import { ignore } from "../error/mod.ts";

/**
 * Writes a file atomically: readers see the old bytes or the new ones, never a part. Temporary file in the same folder,
 * fsync, rename; on failure the temporary file is removed.
 *
 * @param mode permission bits, default 0o600: files of sbx are private to its user
 */
export async function writeAtomic(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.tmp`);
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  try {
    using file = await Deno.open(temporary, { write: true, createNew: true, mode });
    for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
    await file.sync();
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(ignore("the write has failed, and may have made no file"));
    throw error;
  }
}
