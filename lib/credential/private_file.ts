import { SbxError } from "../base/error/mod.ts";

/** A file's text, and what changes whenever the file does. */
export interface PrivateText {
  text: string;
  stamp: string;
}

/**
 * Reads a file that only its user may read; `undefined` when there is none. What is checked is the file that is
 * read, whatever its name leads to in the meantime.
 *
 * @throws {SbxError} `credential.store_insecure` when others may read or write it, or it is not this user's
 */
export function readPrivate(path: string, max: number): PrivateText | undefined {
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  using _ = file;
  const info = file.statSync();
  const mode = (info.mode ?? 0) & 0o777;
  if (!info.isFile || (mode & 0o077) !== 0) {
    throw insecure(
      path,
      `may be read by others (mode ${mode.toString(8).padStart(4, "0")})`,
      `chmod 600 ${path}`,
    );
  }
  if (info.uid !== Deno.uid()) throw insecure(path, "belongs to another user", "use a store of your own");
  if (info.size > max) throw insecure(path, `is over ${max} bytes`, "move it away");
  const bytes = new Uint8Array(info.size);
  let at = 0;
  for (let read = file.readSync(bytes); read !== null && read > 0 && at < bytes.length;) {
    at += read;
    read = file.readSync(bytes.subarray(at));
  }
  return { text: new TextDecoder().decode(bytes.subarray(0, at)), stamp: stampOf(info) };
}

/** What changes whenever a file that is written by rename does; "" when there is none. */
export function stampAt(path: string): string {
  try {
    return stampOf(Deno.statSync(path));
  } catch {
    return "";
  }
}

function stampOf({ ino, mtime, ctime, size, mode }: Deno.FileInfo): string {
  return `${ino} ${mtime?.getTime()} ${ctime?.getTime()} ${size} ${mode}`;
}

function insecure(path: string, what: string, hint: string): SbxError {
  return new SbxError("credential.store_insecure", `${path} ${what}; sbx does not use it`, { hint });
}
