/** Describes the packages and programs of a release, and their components by its SBOM. */
import { basename, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type BinaryEntry, digestFile, type PackageEntry } from "../release/mod.ts";
import { extractProgram, linkTarget } from "./update/program/mod.ts";
import { copyInto, readInput } from "./file.ts";
import { UNSIGNED, type Workspace } from "./workspace.ts";
import { z } from "zod";
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
function readComponents(bytes: Uint8Array, source: string): (path: string) => string {
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

/** A package, its SPDX document, and the binaries in it. */
export interface PackageFiles {
  file: string;
  sbom: string;
  /** version of the binaries */
  version: string;
  binaries: { path: string; file: string }[];
}

const KINDS: [string, PackageEntry["kind"]][] = [[".deb", "deb"], [".pkg", "macos-pkg"]];

/**
 * Copies a package and its SBOM into a release's folder, and describes them.
 *
 * @param folder of the release, from `openRelease`
 * @throws {SbxError} `release.package.invalid`, `release.sbom.invalid`, `file.invalid`
 */
export async function describePackage(
  workspace: Workspace,
  folder: string,
  { file, sbom, version, binaries }: PackageFiles,
): Promise<{ packages: PackageEntry[]; binaries: BinaryEntry[] }> {
  const name = basename(file);
  const kind = KINDS.find(([ending]) => name.endsWith(ending))?.[1];
  if (!kind) {
    throw new SbxError("release.package.invalid", `${file} is neither a .deb nor a .pkg`, {
      hint: "give the package that make deb or make pkg wrote",
    });
  }
  const componentOf = readComponents(await readInput(sbom), sbom);
  const described: BinaryEntry[] = [];
  for (const binary of binaries) {
    const digests = await digestInput(binary.file);
    if (kind === "deb") await requireIn(file, binary, digests);
    const { sha256, blake3 } = digests;
    described.push({
      name: basename(binary.path),
      version,
      package: name,
      path: binary.path,
      sha256,
      blake3,
      hmac: UNSIGNED,
      sbom_component: componentOf(binary.path),
    });
  }
  const url = await copyInto(workspace, folder, file);
  const { sha256, blake3, bytes } = await digestFile(workspace.path(url));
  const entry = {
    name,
    kind,
    url,
    sha256,
    blake3,
    hmac: UNSIGNED,
    bytes,
    sbom: await copyInto(workspace, folder, sbom),
  };
  return { packages: [entry], binaries: described };
}

/** Most links from the path of a binary to its file. */
const LINKS_MAX = 4;

/**
 * Refuses a binary that is not the one in its package: hosts would refuse it after they have fetched the
 * package. A `.pkg` is not opened: only macOS can.
 *
 * @throws {SbxError} `release.package.invalid`
 */
async function requireIn(
  deb: string,
  { path, file }: PackageFiles["binaries"][number],
  given: Awaited<ReturnType<typeof digestInput>>,
): Promise<void> {
  const work = await Deno.makeTempDir({ prefix: "sbx-release-" });
  try {
    let place = path;
    for (let links = 0, next; links < LINKS_MAX && (next = await linkTarget(deb, place)); links++) {
      place = next;
    }
    const packed = await extractProgram(deb, place, join(work, "binary")).catch((cause) => {
      throw new SbxError("release.package.invalid", `${path} cannot be taken out of ${deb}`, {
        cause,
        hint: `dpkg-deb --contents ${deb} lists its files; the path of --binary begins with /`,
      });
    });
    if (packed.sha256 === given.sha256 && packed.blake3 === given.blake3) return;
    throw new SbxError(
      "release.package.invalid",
      `${path} in ${deb} is not ${file}: SHA-256 ${packed.sha256}, ${packed.bytes} bytes, against ${given.sha256}, ` +
        `${given.bytes} bytes`,
      { hint: "give the file that the package was built from" },
    );
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

async function digestInput(path: string) {
  try {
    return await digestFile(path);
  } catch (cause) {
    throw new SbxError("file.invalid", `${path} cannot be read`, { cause, hint: "check the path" });
  }
}
