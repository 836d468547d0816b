import { SbxError } from "../../base/error/mod.ts";

/** Largest file of keys, in `bytes`. */
const FILE_MAX = 64 * 1024;

/**
 * Readers of a key file besides its owner: none for signing keys; for verification keys, everyone if root
 * installed the file, since people's own programs read it; everyone for public keys.
 */
export type KeyUse = "sign" | "verify" | "public";

/**
 * Reads a file of keys. Root or this user must own it, and no one else may write it. The checks apply to the
 * opened file.
 *
 * @throws {SbxError} `release.keys.not_found`, `release.keys.insecure`, `release.keys.unreadable`
 */
export async function readKeyFile(path: string, use: KeyUse): Promise<string> {
  try {
    using file = await Deno.open(path);
    const info = await file.stat();
    requireSafe(path, info, use);
    const bytes = new Uint8Array(FILE_MAX + 1);
    let size = 0;
    for (let read; size < bytes.length && (read = await file.read(bytes.subarray(size))) !== null;) {
      size += read;
    }
    if (size > FILE_MAX) throw insecure(path, `is over ${FILE_MAX} bytes`, "name a file of keys");
    return new TextDecoder().decode(bytes.subarray(0, size));
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    const isMissing = cause instanceof Deno.errors.NotFound;
    throw new SbxError(
      isMissing ? "release.keys.not_found" : "release.keys.unreadable",
      `the release keys ${path} ${isMissing ? "are not there" : "cannot be read"}`,
      { cause, hint: "check the path and its permissions" },
    );
  }
}

function requireSafe(path: string, info: Deno.FileInfo, use: KeyUse): void {
  const mode = (info.mode ?? 0) & 0o777;
  const shown = mode.toString(8).padStart(4, "0");
  if (!info.isFile) throw insecure(path, "is not a file", "name a file of keys");
  if (info.uid !== 0 && info.uid !== Deno.uid()) {
    throw insecure(path, "belongs to another user", "use a file of your own, or one of root's");
  }
  if (mode & 0o022) {
    throw insecure(path, `can be written by other users (mode ${shown})`, `chmod go-w ${path}`);
  }
  const mayBeRead = use === "public" || use === "verify" && info.uid === 0;
  if (!mayBeRead && mode & 0o044) {
    throw insecure(path, `can be read by other users (mode ${shown})`, `chmod 600 ${path}`);
  }
}

function insecure(path: string, problem: string, hint: string): SbxError {
  return new SbxError("release.keys.insecure", `${path} ${problem}; sbx does not use it`, { hint });
}
