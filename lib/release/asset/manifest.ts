import type { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { Manifest } from "./schema.ts";

/** Longest manifest, in `bytes`: room for very many releases, and small enough to parse at once. */
export const MANIFEST_LIMIT = 1024 * 1024;
/** Problems named in one error; the rest are counted. */
const PROBLEMS_SHOWN = 3;

const GENERATE_HINT = "write a valid one with sbx-admin manifest generate; nothing was changed";

/**
 * Parses a manifest of untrusted bytes.
 *
 * @param source origin of the bytes, for the error
 * @throws {SbxError} `manifest.invalid`
 */
export function parseManifest(
  bytes: Uint8Array | string,
  source: string,
  hint = GENERATE_HINT,
): Manifest {
  const invalidError = (reason: string, cause?: unknown) =>
    new SbxError("manifest.invalid", `the asset manifest ${source} is not valid: ${reason}`, { cause, hint });
  if (bytes.length > MANIFEST_LIMIT) throw invalidError(`it is over ${MANIFEST_LIMIT} bytes`);
  let value: unknown;
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = parseJson(text);
  } catch (cause) {
    throw invalidError("it is not JSON in UTF-8", cause);
  }
  const result = Manifest.safeParse(value);
  if (result.success) return result.data;
  throw invalidError(describe(result.error.issues), result.error);
}

/** Reads and parses a manifest. @throws {SbxError} `manifest.not_found`, `manifest.invalid` */
export async function readManifest(
  path: string,
  hint?: string,
): Promise<{ manifest: Manifest; bytes: Uint8Array }> {
  const bytes = await readLimited(path, MANIFEST_LIMIT + 1);
  return { manifest: parseManifest(bytes, path, hint), bytes };
}

async function readLimited(path: string, limit: number): Promise<Uint8Array> {
  try {
    using file = await Deno.open(path);
    const buffer = new Uint8Array(limit);
    let size = 0;
    for (let read; size < limit && (read = await file.read(buffer.subarray(size))) !== null;) size += read;
    return buffer.subarray(0, size);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new SbxError("manifest.not_found", `there is no asset manifest at ${path}`, {
        cause,
        hint: "check the path; sbx-admin manifest generate ASSETS_DIR writes a manifest",
      });
    }
    throw new SbxError("manifest.unreadable", `the asset manifest ${path} cannot be read`, {
      cause,
      hint: "give your user read permission on it",
    });
  }
}

/** Describes the first few issues, each as `assets.releases.2026.1121.1: <message>`. */
function describe(issues: z.core.$ZodIssue[]): string {
  const lines = issues.slice(0, PROBLEMS_SHOWN).map((issue) => {
    const message = issue.code === "invalid_key" ? issue.issues[0]?.message ?? issue.message : issue.message;
    return `${issue.path.map(String).join(".").slice(0, 200) || "manifest"}: ${message.slice(0, 300)}`;
  });
  const more = issues.length - lines.length;
  return lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
