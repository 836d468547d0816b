import { SbxError } from "../base/error/mod.ts";
import { parseToml, type TomlDocument } from "./document.ts";

/** Most bytes of a TOML file that a person writes (issue 3, "Bad input"): settings, corp and profile files. */
export const TOML_FILE_LIMIT = 1024 * 1024;

/**
 * Reads one TOML file that a person wrote.
 *
 * A symbolic link is followed, since people keep such files in a folder of their own; what it leads to must be a
 * regular file.
 *
 * @throws {SbxError} `toml.not_found`, `toml.unreadable`, `toml.not_a_file`, `toml.too_large`, `toml.invalid`;
 * the last one's message begins with `file:line:column`
 */
export async function readToml(path: string, limit = TOML_FILE_LIMIT): Promise<TomlDocument> {
  return parseToml(await readText(path, limit), path);
}

/** The text of a file that {@linkcode readToml} would parse, byte order mark and line ends as they are. */
export async function readText(path: string, limit = TOML_FILE_LIMIT): Promise<string> {
  return decode(await readBytes(path, limit), path);
}

async function readBytes(path: string, limit: number): Promise<Uint8Array> {
  try {
    // Looked at before it is opened: opening a named pipe would wait for its writer.
    refuse(await Deno.stat(path), path, limit);
    using file = await Deno.open(path);
    const { size } = refuse(await file.stat(), path, limit);
    // One byte more than it had: a file that grows meanwhile is refused, not cut.
    const bytes = new Uint8Array(Math.min(size, limit) + 1);
    let length = 0;
    while (length < bytes.length) {
      const read = await file.read(bytes.subarray(length));
      if (read === null) return bytes.subarray(0, length);
      length += read;
    }
  } catch (error) {
    throw await asReadError(error, path);
  }
  throw new SbxError("toml.unreadable", `${path}: the file changed while it was read`, {
    hint: "try again",
  });
}

function refuse(info: Deno.FileInfo, path: string, limit: number): Deno.FileInfo {
  if (!info.isFile) {
    throw new SbxError(
      "toml.not_a_file",
      `${path}: ${info.isDirectory ? "a folder" : "not a regular file"}`,
      {
        hint: "move it away, and put a TOML file in its place",
      },
    );
  }
  if (info.size > limit) {
    throw new SbxError(
      "toml.too_large",
      `${path}: ${info.size} bytes, and ${limit} is the most that sbx reads`,
      { hint: "is this the right file?" },
    );
  }
  return info;
}

async function asReadError(error: unknown, path: string): Promise<SbxError> {
  if (error instanceof SbxError) return error;
  if (error instanceof Deno.errors.NotFound) {
    const dangling = await Deno.lstat(path).then((info) => info.isSymlink, () => false);
    return new SbxError(
      dangling ? "toml.unreadable" : "toml.not_found",
      dangling ? `${path}: a symbolic link to a file that does not exist` : `${path}: no such file`,
      { cause: error },
    );
  }
  const [what, hint] = error instanceof Deno.errors.PermissionDenied
    ? ["no permission to read it", "give your user read permission on it"]
    : error instanceof Deno.errors.NotADirectory
    ? ["a part of the path is a file, not a folder", "move that file away"]
    : error instanceof Deno.errors.FilesystemLoop
    ? ["symbolic links that lead in a circle", "replace the link with a file"]
    : ["it cannot be read", "the log has the reason"];
  return new SbxError("toml.unreadable", `${path}: ${what}`, { cause: error, hint });
}

function decode(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new SbxError("toml.invalid", `${path}:${badUtf8Line(bytes)}:1: bytes that are not UTF-8`, {
      cause,
      hint: "save the file as UTF-8",
    });
  }
}

/** The first line that is not UTF-8. No byte within a UTF-8 sequence is a line feed, so lines can be tried alone. */
function badUtf8Line(bytes: Uint8Array): number {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let line = 1, start = 0;; line++) {
    const end = bytes.indexOf(0x0a, start);
    try {
      decoder.decode(bytes.subarray(start, end < 0 ? undefined : end));
    } catch {
      return line;
    }
    if (end < 0) return line;
    start = end + 1;
  }
}
