import { SbxError } from "../error/mod.ts";
import { parseToml, type TomlDocument } from "./document.ts";

/** Maximum size of a settings, corp or profile file, in `bytes`. */
export const TOML_FILE_LIMIT = 1024 * 1024;

/**
 * Reads one TOML file written by a person. Follows symbolic links, since people keep such files in dotfile
 * folders; the target must be a regular file.
 *
 * @throws {SbxError} `toml.not_found`, `toml.unreadable`, `toml.not_a_file`, `toml.too_large`, and
 * `toml.invalid` with `file:line:column` at the start of the message
 */
export async function readToml(path: string, limit = TOML_FILE_LIMIT): Promise<TomlDocument> {
  return parseToml(await readText(path, limit), path);
}

/**
 * Reads the text of a TOML file with the checks of {@linkcode readToml}; keeps the
 * byte order mark and line ends.
 */
export async function readText(path: string, limit = TOML_FILE_LIMIT): Promise<string> {
  return decode(await readBytes(path, limit), path);
}

async function readBytes(path: string, limit: number): Promise<Uint8Array> {
  try {
    // Checked before opening: opening a named pipe would wait for its writer.
    requireRegularFile(await Deno.stat(path), path, limit);
    using file = await Deno.open(path);
    const { size } = requireRegularFile(await file.stat(), path, limit);
    // One byte more than its size: a file that grows meanwhile is rejected, not truncated.
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
  throw new SbxError("toml.unreadable", `${path}: the file changed during the read`, {
    hint: "try again",
  });
}

function requireRegularFile(info: Deno.FileInfo, path: string, limit: number): Deno.FileInfo {
  if (!info.isFile) {
    throw new SbxError(
      "toml.not_a_file",
      `${path}: ${info.isDirectory ? "is a folder" : "is not a regular file"}`,
      {
        hint: "replace it with a TOML file",
      },
    );
  }
  if (info.size > limit) {
    throw new SbxError(
      "toml.too_large",
      `${path}: the file has ${info.size} bytes, the limit is ${limit}`,
      { hint: "check that this is the right file" },
    );
  }
  return info;
}

async function asReadError(error: unknown, path: string): Promise<SbxError> {
  if (error instanceof SbxError) return error;
  if (error instanceof Deno.errors.NotFound) {
    const isDangling = await Deno.lstat(path).then((info) => info.isSymlink, () => false);
    return new SbxError(
      isDangling ? "toml.unreadable" : "toml.not_found",
      isDangling ? `${path}: broken symbolic link` : `${path}: no such file`,
      { cause: error },
    );
  }
  const [problem, hint] = error instanceof Deno.errors.PermissionDenied
    ? ["permission denied", "give your user read permission"]
    : error instanceof Deno.errors.NotADirectory
    ? ["a parent of the path is a file, not a folder", "move that file away"]
    : error instanceof Deno.errors.FilesystemLoop
    ? ["loop of symbolic links", "replace the link with a file"]
    : ["the file cannot be read", "see the log for the reason"];
  return new SbxError("toml.unreadable", `${path}: ${problem}`, { cause: error, hint });
}

function decode(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new SbxError("toml.invalid", `${path}:${firstInvalidLine(bytes)}:1: invalid UTF-8`, {
      cause,
      hint: "save the file as UTF-8",
    });
  }
}

/**
 * First line with invalid UTF-8. No byte within a UTF-8 sequence is a line feed,
 * so lines can be decoded alone.
 */
function firstInvalidLine(bytes: Uint8Array): number {
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
