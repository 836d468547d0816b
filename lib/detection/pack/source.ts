import { isAbsolute, join, relative } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { Problem } from "../problem.ts";
import type { Place } from "./document.ts";
import { decode, type Pack, readBytes } from "./pack.ts";
import { PACK_MAX } from "./schema.ts";

/** The text of a source, and where its lines are. */
export interface SourceText {
  text: string;
  /** the file that it is, if it is one */
  file?: string;
  /** of the source within the pack */
  path: PropertyKey[];
  placeOf(line: number): Place;
}

/**
 * The text of one source of a pack: what stands in the pack, or a file below its folder; its hash is looked at. What
 * is published somewhere has to be downloaded by a person.
 */
export async function sourceText(
  { document, folder, sources }: Pack,
  at: number,
): Promise<SourceText | Problem> {
  const { content, path, url, hash, signature_url } = sources[at];
  const where = ["sources", at, content !== undefined ? "content" : path !== undefined ? "path" : "url"];
  const refuse = (code: string, message: string): Problem => ({
    code,
    severity: "error",
    path: where,
    message,
    ...document.placeOf(where),
  });
  if (signature_url !== undefined && hash === undefined) {
    return refuse("source-signature", "sbx does not check signatures; name the hash of the source too");
  }
  if (content !== undefined) {
    if (hash !== undefined && `blake3:${blake3(content)}` !== hash) return refuse("source-hash", WRONG_HASH);
    return { text: content, path: where, placeOf: (line) => document.textPlaceOf(where, line) };
  }
  if (path === undefined) {
    return refuse(
      "source-url",
      `a source that is only at ${url} does not compile; download it and name its path`,
    );
  }
  if (folder === undefined) {
    return refuse("source-path", "a pack that is no file has no folder for a path; put the content in");
  }
  const file = join(folder, path);
  const bytes = await readLocal(folder, file);
  if (typeof bytes === "string") return refuse("source-path", bytes);
  if (hash !== undefined && `blake3:${blake3(bytes)}` !== hash) {
    return refuse("source-hash", `${file}: ${WRONG_HASH}`);
  }
  const text = decode(bytes, file);
  return typeof text === "string"
    ? { text, file, path: where, placeOf: (line) => ({ file, line }) }
    : { ...text, path: where };
}

const WRONG_HASH = "the source is not what its hash says; compare it with what was published";

/** Bytes of a file that is below a pack's folder, also after links; or why it cannot be taken. */
async function readLocal(folder: string, file: string): Promise<Uint8Array | string> {
  try {
    const inside = relative(await Deno.realPath(folder), await Deno.realPath(file));
    if (inside.startsWith("..") || isAbsolute(inside)) return `${file} leads out of the pack's folder`;
    return await readBytes(file, PACK_MAX);
  } catch (error) {
    return error instanceof SbxError ? error.message : `${file} cannot be read; is it there?`;
  }
}
