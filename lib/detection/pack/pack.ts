/** Reads and checks packs and the sources they name. */
import { dirname, isAbsolute, join, relative } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { describeIssue } from "../../base/toml/mod.ts";
import { detectionError, type Diagnostic, diagnosticsOf, hasErrors, type Problem } from "../problem.ts";
import { EXPORT_ROUTES, isExportRoute } from "../ir/ir.ts";
import { documentOf, formatOf, type PackDocument, parseDocument, type Place } from "./document.ts";
import { PACK_MAX, type PackFile, PackSchema } from "./schema.ts";
import { blake3 } from "../../base/hash/mod.ts";

/** Pack with a valid envelope; its sources are checked when it is compiled. */
export interface Pack extends PackFile {
  document: PackDocument;
  /** base of its sources' paths; absent for a pack given as data */
  folder?: string;
}

/** Result of reading a pack. */
export interface PackReadResult {
  /** absent if `problems` has an error */
  pack?: Pack;
  /** id stated by the document, also if the pack is invalid */
  id: string | null;
  version: string | null;
  problems: Problem[];
}

/** Maximum number of envelope problems. */
const PROBLEMS_MAX = 200;

/** Report of `validate` (docs/design/contracts/06-detection.md §6). */
export interface PackValidation {
  schema: "sbx.detection-pack-validation.v1";
  ok: boolean;
  path: string;
  diagnostics: Diagnostic[];
  /** null if the document states none */
  pack_id: string | null;
  version: string | null;
}

/**
 * Reads a pack file: YAML, TOML or JSON by its extension.
 *
 * @throws {SbxError} `detection.not_found`: it cannot be read; `detection.too_large`
 */
export async function readPack(path: string): Promise<PackReadResult> {
  const text = decodeUtf8(await readBytes(path, PACK_MAX), path);
  if (typeof text !== "string") return { id: null, version: null, problems: [text] };
  const document = parseDocument(text, path, formatOf(path));
  if ("code" in document) return { id: null, version: null, problems: [document] };
  return checkPack(document, dirname(path));
}

/**
 * Reads a pack file as data, for a client that sends it to the service.
 *
 * @throws {SbxError} `detection.not_found`, `detection.too_large`, `detection.invalid`: it cannot be parsed
 */
export async function readPackData(path: string): Promise<unknown> {
  const text = decodeUtf8(await readBytes(path, PACK_MAX), path);
  if (typeof text !== "string") throw detectionError([text]);
  const document = parseDocument(text, path, formatOf(path));
  if ("code" in document) throw detectionError([document]);
  return document.value;
}

/** Reads a pack given as data. */
export function packOf(value: unknown, name?: string): PackReadResult {
  return checkPack(documentOf(value, name));
}

/** Validates the envelope. */
export function checkPack(document: PackDocument, folder?: string): PackReadResult {
  const problems: Problem[] = [];
  const report = (severity: Problem["severity"], code: string, path: PropertyKey[], message: string) =>
    problems.push({ code, severity, path, message, ...document.placeOf(path) });
  const parsed = PackSchema.safeParse(document.value);
  for (const issue of (parsed.error?.issues ?? []).slice(0, PROBLEMS_MAX)) {
    // A hostile document may have a million unknown keys in one object.
    const bounded = issue.code === "unrecognized_keys"
      ? { ...issue, keys: issue.keys.slice(0, PROBLEMS_MAX) }
      : issue;
    for (const { path, message } of describeIssue(bounded, PackSchema)) {
      report("error", "envelope", path, message);
    }
  }
  const pack = parsed.data;
  if (pack) {
    const size = pack.sources.reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
    if (size > PACK_MAX) {
      report(
        "error",
        "envelope",
        ["sources"],
        `the sources have ${size} characters in total; the maximum is ${PACK_MAX}`,
      );
    }
    pack.findings.export_routes.forEach((route, at) => {
      if (isExportRoute(route)) return;
      const routes = EXPORT_ROUTES.join(", ");
      report(
        "warning",
        "export-route",
        ["findings", "export_routes", at],
        `there is no sink "${route}"; use one of ${routes}`,
      );
    });
    if (pack.status === "deprecated") report("warning", "deprecated", ["status"], "the pack is deprecated");
    if (pack.status === "revoked") {
      report(
        "warning",
        "revoked",
        ["status"],
        "the pack is revoked: it cannot be installed, and no VM starts with it",
      );
    }
  }
  problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0));
  const { id, version } = (document.value ?? {}) as Record<string, unknown>;
  return {
    ...(pack && !hasErrors(problems) &&
      { pack: { ...pack, document, ...(folder !== undefined && { folder }) } }),
    id: typeof id === "string" ? id : null,
    version: typeof version === "string" ? version : null,
    problems,
  };
}

/** Report on a pack's envelope. */
export function validationOf({ id, version, problems }: PackReadResult, path: string): PackValidation {
  return {
    schema: "sbx.detection-pack-validation.v1",
    ok: !hasErrors(problems),
    path,
    diagnostics: diagnosticsOf(problems),
    pack_id: id,
    version,
  };
}

/**
 * Reads a regular file.
 *
 * @param limit maximum `bytes`
 * @throws {SbxError} `detection.not_found`: it cannot be read or is not a regular file; `detection.too_large`
 */
export async function readBytes(path: string, limit: number): Promise<Uint8Array> {
  let info: Deno.FileInfo;
  let bytes: Uint8Array;
  try {
    // Checked before opening: opening a named pipe would wait for its writer.
    info = await Deno.stat(path);
    if (info.isFile && info.size <= limit) bytes = await Deno.readFile(path);
    else bytes = new Uint8Array();
  } catch (cause) {
    throw new SbxError("detection.not_found", `${path}: cannot be read`, {
      cause,
      hint: "check the path and its permissions",
    });
  }
  if (!info.isFile) {
    throw new SbxError("detection.not_found", `${path}: not a regular file`, {
      hint: "pass the path of a file",
    });
  }
  if (info.size > limit || bytes.length > limit) {
    throw new SbxError(
      "detection.too_large",
      `${path}: ${info.size} bytes, more than the maximum of ${limit}`,
      {
        hint: "split it into several packs",
      },
    );
  }
  return bytes;
}

/** Decodes UTF-8 and removes a byte order mark. @returns the text, or a problem for invalid bytes */
export function decodeUtf8(bytes: Uint8Array, file: string): string | Problem {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return {
      code: "syntax",
      severity: "error",
      path: [],
      file,
      line: 1,
      message: "invalid UTF-8",
    };
  }
}

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
 * Reads one source of a pack: inline content, or a file below the pack's folder. Checks its hash, if there is
 * one. A source with only a url is an error: sbx downloads nothing.
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

/**
 * Reads a file below a pack's folder, after resolving links.
 * @returns its bytes, or the reason it was rejected
 */
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
