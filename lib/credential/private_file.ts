import { SbxError } from "../base/error/mod.ts";

/** Text of a file, and a stamp that changes whenever the file does. */
export interface PrivateText {
  text: string;
  stamp: string;
}

/**
 * Reads a file that only its user may read; `undefined` if absent. The checks apply to the opened file, even
 * if its name is replaced meanwhile.
 *
 * @throws {SbxError} `credential.store_insecure`: others may read or write the file, or another user owns it
 */
export function readPrivate(path: string, max: number): PrivateText | undefined {
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.PermissionDenied) {
      throw insecureError(path, "may not be read by this user", `ls -l ${path} shows whose it is`);
    }
    throw error;
  }
  using _ = file;
  const info = file.statSync();
  const mode = (info.mode ?? 0) & 0o777;
  if (!info.isFile || (mode & 0o077) !== 0) {
    throw insecureError(
      path,
      `can be accessed by other users (mode ${mode.toString(8).padStart(4, "0")})`,
      `chmod 600 ${path}`,
    );
  }
  if (info.uid !== Deno.uid()) {
    throw insecureError(path, "belongs to another user", "use a store of your own");
  }
  if (info.size > max) throw insecureError(path, `is over ${max} bytes`, "move it away");
  const bytes = new Uint8Array(info.size);
  let at = 0;
  for (let read = file.readSync(bytes); read !== null && read > 0 && at < bytes.length;) {
    at += read;
    read = file.readSync(bytes.subarray(at));
  }
  return { text: new TextDecoder().decode(bytes.subarray(0, at)), stamp: stampOf(info) };
}

/** Stamp that changes whenever a file written by rename does; "" for a missing file. */
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

function insecureError(path: string, problem: string, hint: string): SbxError {
  return new SbxError("credential.store_insecure", `${path} ${problem}; sbx does not use it`, { hint });
}
