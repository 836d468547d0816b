/** Keeps files that must not be replaced, by several programs at once. */
import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";

/**
 * Writes a file unless its name exists; all of it or nothing, also when the disk is full or the program is
 * killed.
 *
 * @returns false if there is one
 * @throws {SbxError} `fleet.store.unavailable`
 */
export async function keepFile(path: string, data: Uint8Array): Promise<boolean> {
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.part`);
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    using file = await Deno.open(temporary, { write: true, createNew: true, mode: 0o600 });
    for (let at = 0; at < data.length;) at += await file.write(data.subarray(at));
    await file.syncData();
    // A link to an existing name fails: the first of two writers wins.
    await Deno.link(temporary, path);
    // The name too must outlive a power cut: acknowledged content is not sent again.
    using folder = await Deno.open(dirname(path));
    await folder.sync();
    return true;
  } catch (cause) {
    if (cause instanceof Deno.errors.AlreadyExists) return false;
    throw new SbxError("fleet.store.unavailable", `the store cannot keep ${path}`, {
      cause,
      hint: "free some space, or check the permissions of the folder; machines send again what was not kept",
    });
  } finally {
    await Deno.remove(temporary).catch(() => {});
  }
}
