import { dirname, join } from "node:path";

/**
 * Writes a file so that a reader sees the old bytes or the new ones, never a part: temporary file in the same
 * folder, fsync, rename. The temporary file is removed when anything fails.
 *
 * @param mode permission bits, default 0o600: what sbx keeps is its user's own
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
    await Deno.remove(temporary).catch(() => {});
    throw error;
  }
}
