import { isAbsolute, join, relative } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { Problem } from "../problem.ts";
import type { Place } from "./document.ts";
import { decodeUtf8, type Pack, readBytes } from "./pack.ts";
import { PACK_MAX } from "./schema.ts";

/** Text of a source, with the locations of its lines. */
export interface SourceText {
  text: string;
  /** file it was read from, if any */
  file?: string;
  /** path of the source in the pack */
  path: PropertyKey[];
  placeOf(line: number): Place;
}

/**
 * Reads one source of a pack: inline content, or a file below the pack's folder. Checks its hash, if there is one. A
 * source with only a url is an error: sbx downloads nothing.
 */
export async function readSource(
  { document, folder, sources }: Pack,
  at: number,
): Promise<SourceText | Problem> {
  const { content, path, url, hash, signature_url } = sources[at];
  const where = ["sources", at, content !== undefined ? "content" : path !== undefined ? "path" : "url"];
  const problem = (code: string, message: string): Problem => ({
    code,
    severity: "error",
    path: where,
    message,
    ...document.placeOf(where),
  });
  if (signature_url !== undefined && hash === undefined) {
    return problem("source-signature", "sbx does not check signatures; add the hash of the source");
  }
  if (content !== undefined) {
    if (hash !== undefined && `blake3:${blake3(content)}` !== hash) return problem("source-hash", WRONG_HASH);
    return { text: content, path: where, placeOf: (line) => document.textPlaceOf(where, line) };
  }
  if (path === undefined) {
    return problem(
      "source-url",
      `sbx does not download sources; download ${url} and set its path`,
    );
  }
  if (folder === undefined) {
    return problem("source-path", "a pack given as data cannot use a path; set the content");
  }
  const file = join(folder, path);
  const bytes = await readLocal(folder, file);
  if (typeof bytes === "string") return problem("source-path", bytes);
  if (hash !== undefined && `blake3:${blake3(bytes)}` !== hash) {
    return problem("source-hash", `${file}: ${WRONG_HASH}`);
  }
  const text = decodeUtf8(bytes, file);
  return typeof text === "string"
    ? { text, file, path: where, placeOf: (line) => ({ file, line }) }
    : { ...text, path: where };
}

const WRONG_HASH = "the source does not match its hash; compare it with the published version";

/** Reads a file below a pack's folder, after resolving links. @returns its bytes, or the reason it was rejected */
async function readLocal(folder: string, file: string): Promise<Uint8Array | string> {
  try {
    const path = relative(await Deno.realPath(folder), await Deno.realPath(file));
    if (path.startsWith("..") || isAbsolute(path)) return `${file} is outside the pack's folder`;
    return await readBytes(file, PACK_MAX);
  } catch (error) {
    return error instanceof SbxError
      ? error.message
      : `${file} cannot be read; check the path and its permissions`;
  }
}
