import { basename } from "node:path";
import { z } from "zod";
import { SbxError } from "../base/error/mod.ts";
import { parseJson } from "../base/json/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";

/** The parts of an SPDX 2.3 document that name components. */
const Spdx = z.looseObject({
  spdxVersion: z.literal("SPDX-2.3"),
  packages: z.array(z.looseObject({ SPDXID: z.string(), name: z.string() })).default([]),
  files: z.array(z.looseObject({ SPDXID: z.string(), fileName: z.string() })).default([]),
});

/**
 * Reads the components of an SBOM.
 *
 * @returns finds the SPDX id of an installed file: that of the file, else of a package of its name
 * @throws {SbxError} `release.sbom.invalid`, also from the function: the SBOM does not have it
 */
export function readComponents(bytes: Uint8Array, source: string): (path: string) => string {
  const invalid = (problem: string, cause?: unknown) =>
    new SbxError("release.sbom.invalid", `${source}: ${problem}`, {
      cause,
      hint: "give the SPDX 2.3 document of the package, as JSON",
    });
  let document: z.output<typeof Spdx>;
  try {
    document = Spdx.parse(parseJson(decodeUtf8(bytes) ?? ""));
  } catch (cause) {
    throw invalid("this is not an SPDX 2.3 document", cause);
  }
  return (path) => {
    const found = document.files.find(({ fileName }) => fileName.replace(/^\.?\/?/, "/") === path) ??
      document.packages.find(({ name }) => name === basename(path));
    if (!found) throw invalid(`it has no component for ${path}`);
    return found.SPDXID;
  };
}
