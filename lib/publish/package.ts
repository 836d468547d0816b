import { basename } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type BinaryEntry, digestFile, type PackageEntry } from "../release/mod.ts";
import { copyInto, readInput } from "./file.ts";
import { readComponents } from "./sbom.ts";
import { UNSIGNED, type Workspace } from "./workspace.ts";

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
    const { sha256, blake3 } = await digestInput(binary.file);
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

async function digestInput(path: string) {
  try {
    return await digestFile(path);
  } catch (cause) {
    throw new SbxError("file.invalid", `${path} cannot be read`, { cause, hint: "check the path" });
  }
}
