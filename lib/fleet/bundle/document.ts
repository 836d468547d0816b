/**
 * Bundles: corp.toml with the rules and packs that it names, in one file (docs/design/contracts/10-release.md
 * §10, "Fleet bundles").
 */
import { join, relative } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { BUNDLE_BYTES_MAX, BUNDLE_FILES_MAX } from "../../release/mod.ts";

/** The one file that every bundle has. */
export const CORP_NAME = "corp.toml";

const filePath = z.string().max(255).regex(
  /^(?!.*(?:^|\/)\.)[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/,
  "must be a path below the bundle of letters, digits, . _ -, no part of which begins with a dot",
);

const BundleDocument = z.strictObject({
  schema: z.literal("sbx.fleet-bundle.v1"),
  files: z.record(filePath, z.string()).refine(
    (files) => Object.keys(files).length <= BUNDLE_FILES_MAX && Object.hasOwn(files, CORP_NAME),
    `must have ${CORP_NAME}, and at most ${BUNDLE_FILES_MAX} files`,
  ),
});

/** Depth of a bundle's JSON, with room: it has one object in another. */
const DEPTH_MAX = 4;
/** Characters of a problem that an error quotes: it may repeat a path of the document. */
const PROBLEM_CHARS = 300;

/** Texts of the files of a bundle, by path. */
export type BundleFiles = Record<string, string>;

/** Reads a bundle whose bytes were verified. @throws {SbxError} `bundle.invalid` */
export function parseBundle(bytes: Uint8Array, source: string): BundleFiles {
  const text = bytes.length <= BUNDLE_BYTES_MAX ? decodeUtf8(bytes) : undefined;
  if (text === undefined) throw invalid(source, `it is not UTF-8 of at most ${BUNDLE_BYTES_MAX} bytes`);
  let value: unknown;
  try {
    value = parseJson(text, DEPTH_MAX);
  } catch (cause) {
    throw invalid(source, "it is not JSON", cause);
  }
  const parsed = BundleDocument.safeParse(value);
  if (parsed.success) return parsed.data.files;
  const [issue] = parsed.error.issues;
  throw invalid(source, `${issue.path.join(".") || "document"}: ${issue.message}`.slice(0, PROBLEM_CHARS));
}

/** Packs the files of a folder. @throws {SbxError} `bundle.invalid` */
export async function packBundle(folder: string): Promise<Uint8Array<ArrayBuffer>> {
  const files: BundleFiles = {};
  for (const path of await filesIn(folder)) {
    const text = decodeUtf8(await Deno.readFile(path));
    if (text === undefined) throw invalid(path, "it is not UTF-8");
    files[relative(folder, path)] = text;
  }
  const bytes = new TextEncoder().encode(JSON.stringify({ schema: "sbx.fleet-bundle.v1", files }) + "\n");
  parseBundle(bytes, folder);
  return bytes;
}

async function filesIn(folder: string): Promise<string[]> {
  const paths: string[] = [];
  try {
    for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
      const path = join(folder, name);
      if (name.startsWith(".")) continue;
      if (isDirectory) paths.push(...await filesIn(path));
      else if (isFile) paths.push(path);
      // A link may lead to a file that was not meant to be published.
      else throw invalid(path, "it is neither a file nor a folder");
      if (paths.length > BUNDLE_FILES_MAX) {
        throw invalid(folder, `it has more than ${BUNDLE_FILES_MAX} files`);
      }
    }
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    throw invalid(folder, "it cannot be read", cause);
  }
  return paths.sort();
}

function invalid(source: string, problem: string, cause?: unknown): SbxError {
  return new SbxError("bundle.invalid", `the bundle ${source} is refused: ${problem}`, {
    cause,
    hint: "a bundle is a folder with corp.toml and the rules and packs that it names",
  });
}
