import type { z } from "zod";
import { SbxError } from "../base/error/mod.ts";
import { parseJson } from "../base/json/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";
import { DEPTH_MAX, INDEX_BYTES_MAX, MANIFEST_BYTES_MAX } from "./limit.ts";
import { ChannelIndex, ChannelManifest } from "./schema.ts";

/** Problems named in one error; the rest are counted. */
const PROBLEMS_SHOWN = 3;

/** A document of the release graph. */
export interface DocumentKind<S extends z.ZodType> {
  /** as errors name it, such as `channel index` */
  name: string;
  schema: S;
  /** size in `bytes` */
  max: number;
}

/**
 * Reads a document of untrusted bytes: size, encoding, nesting and shape, in this order.
 *
 * @param source origin of the bytes, for the error
 * @throws {SbxError} `release.invalid`
 */
export function parseDocument<S extends z.ZodType>(
  { name, schema, max }: DocumentKind<S>,
  bytes: Uint8Array,
  source: string,
): z.output<S> {
  const invalid = (reason: string, cause?: unknown) =>
    new SbxError("release.invalid", `the ${name} ${source} is not valid: ${reason}`, {
      cause,
      hint: "its publisher must correct it; nothing was installed",
    });
  if (bytes.length > max) throw invalid(`it is over ${max} bytes`);
  const text = decodeUtf8(bytes);
  if (text === undefined) throw invalid("it is not UTF-8");
  let value: unknown;
  try {
    value = parseJson(text, DEPTH_MAX);
  } catch (cause) {
    throw invalid(`it is not JSON of at most ${DEPTH_MAX} levels`, cause);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw invalid(describe(result.error.issues), result.error);
}

/** Parses `channels.json`. @throws {SbxError} `release.invalid` */
export function parseIndex(bytes: Uint8Array, source: string): ChannelIndex {
  return parseDocument({ name: "channel index", schema: ChannelIndex, max: INDEX_BYTES_MAX }, bytes, source);
}

/** Parses a channel manifest. @throws {SbxError} `release.invalid` */
export function parseChannelManifest(bytes: Uint8Array, source: string): ChannelManifest {
  return parseDocument(
    { name: "channel manifest", schema: ChannelManifest, max: MANIFEST_BYTES_MAX },
    bytes,
    source,
  );
}

/** Describes the first few issues, each as `channels.stable.manifests.0.url: <message>`. */
function describe(issues: z.core.$ZodIssue[]): string {
  const lines = issues.slice(0, PROBLEMS_SHOWN).map((issue) => {
    const message = issue.code === "invalid_key" ? issue.issues[0]?.message ?? issue.message : issue.message;
    return `${issue.path.map(String).join(".").slice(0, 200) || "document"}: ${message.slice(0, 300)}`;
  });
  const more = issues.length - lines.length;
  return lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
}
