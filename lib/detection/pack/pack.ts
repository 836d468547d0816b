import { dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { describe } from "../../toml/mod.ts";
import { EXPORT_ROUTES } from "../ir.ts";
import { detectionError, type Diagnostic, diagnosticsOf, hasErrors, type Problem } from "../problem.ts";
import { documentOf, formatOf, type PackDocument, parseDocument } from "./document.ts";
import { PACK_MAX, type PackFile, PackSchema } from "./schema.ts";

/** A pack whose envelope is in order; what its sources hold is looked at when it is compiled. */
export interface Pack extends PackFile {
  document: PackDocument;
  /** where its sources' paths begin; absent for a pack that is no file */
  folder?: string;
}

/** What came of reading a pack. */
export interface PackRead {
  /** absent when there is an error among the problems */
  pack?: Pack;
  /** what the document calls itself, also when it is no pack */
  id: string | null;
  version: string | null;
  problems: Problem[];
}

/** Most things that are said of one pack. */
const PROBLEMS_MAX = 200;

/** Report of `validate` (contracts.md §6). */
export interface PackValidation {
  schema: "sbx.detection-pack-validation.v1";
  ok: boolean;
  path: string;
  diagnostics: Diagnostic[];
  /** null when the document does not say */
  pack_id: string | null;
  version: string | null;
}

/**
 * Reads a pack's file: YAML, TOML or JSON by its name.
 *
 * @throws {SbxError} `detection.not_found`, `detection.too_large`
 */
export async function readPack(path: string): Promise<PackRead> {
  const text = decode(await readBytes(path, PACK_MAX), path);
  if (typeof text !== "string") return { id: null, version: null, problems: [text] };
  const document = parseDocument(text, path, formatOf(path));
  if ("code" in document) return { id: null, version: null, problems: [document] };
  return checkPack(document, dirname(path));
}

/**
 * What a pack's file holds, as data: for who sends it on.
 *
 * @throws {SbxError} `detection.not_found`, `detection.too_large`, `detection.invalid` when it cannot be parsed
 */
export async function packData(path: string): Promise<unknown> {
  const text = decode(await readBytes(path, PACK_MAX), path);
  if (typeof text !== "string") throw detectionError([text]);
  const document = parseDocument(text, path, formatOf(path));
  if ("code" in document) throw detectionError([document]);
  return document.value;
}

/** A pack that came as data. */
export function packOf(value: unknown, name?: string): PackRead {
  return checkPack(documentOf(value, name));
}

/** Checks the envelope: every key, and that all of it fits together. */
export function checkPack(document: PackDocument, folder?: string): PackRead {
  const problems: Problem[] = [];
  const report = (severity: Problem["severity"], code: string, path: PropertyKey[], message: string) =>
    problems.push({ code, severity, path, message, ...document.placeOf(path) });
  const parsed = PackSchema.safeParse(document.value);
  for (const issue of (parsed.error?.issues ?? []).slice(0, PROBLEMS_MAX)) {
    // A hostile document has a million wrong keys in one object.
    const few = issue.code === "unrecognized_keys"
      ? { ...issue, keys: issue.keys.slice(0, PROBLEMS_MAX) }
      : issue;
    for (const { path, message } of describe(few, PackSchema)) report("error", "envelope", path, message);
  }
  const pack = parsed.data;
  if (pack) {
    const size = pack.sources.reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
    if (size > PACK_MAX) {
      report("error", "envelope", ["sources"], `the sources hold more than ${PACK_MAX} characters together`);
    }
    pack.findings.export_routes.forEach((route, at) => {
      if (EXPORT_ROUTES.includes(route)) return;
      const known = EXPORT_ROUTES.join(", ");
      report(
        "warning",
        "export-route",
        ["findings", "export_routes", at],
        `no sink is called "${route}"; there is ${known}`,
      );
    });
    if (pack.status === "deprecated") report("warning", "deprecated", ["status"], "the pack is deprecated");
    if (pack.status === "revoked") {
      report(
        "warning",
        "revoked",
        ["status"],
        "the pack is revoked: it does not install, and no VM starts with it",
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

/** The report on a pack's envelope. */
export function validationOf({ id, version, problems }: PackRead, path: string): PackValidation {
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
 * Bytes of a regular file.
 *
 * @throws {SbxError} `detection.not_found`, `detection.too_large`
 */
export async function readBytes(path: string, limit: number): Promise<Uint8Array> {
  let info: Deno.FileInfo;
  let bytes: Uint8Array;
  try {
    // Looked at before it is opened: opening a named pipe would wait for its writer.
    info = await Deno.stat(path);
    if (info.isFile && info.size <= limit) bytes = await Deno.readFile(path);
    else bytes = new Uint8Array();
  } catch (cause) {
    throw new SbxError("detection.not_found", `${path}: it cannot be read`, {
      cause,
      hint: "check the path and its permissions",
    });
  }
  if (!info.isFile) throw new SbxError("detection.not_found", `${path}: not a regular file`);
  if (info.size > limit || bytes.length > limit) {
    throw new SbxError(
      "detection.too_large",
      `${path}: ${info.size} bytes, and ${limit} is the most that sbx reads`,
      {
        hint: "make several packs of it",
      },
    );
  }
  return bytes;
}

/** UTF-8 text without its byte order mark, or what keeps it from being that. */
export function decode(bytes: Uint8Array, file: string): string | Problem {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return {
      code: "syntax",
      severity: "error",
      path: [],
      file,
      line: 1,
      message: "bytes that are not UTF-8",
    };
  }
}
