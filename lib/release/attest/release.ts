import { basename, dirname } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { type Artifact, digestFile, type ReleaseKeys, type SigningKey, verifyTree } from "../mod.ts";
import { writeBundle } from "./sigstore_bundle.ts";
import { kindsFor } from "./check.ts";
import { attestationPathOf } from "./file.ts";
import {
  type Build,
  documentStatement,
  type Kind,
  provenance,
  type Statement,
  type Subject,
} from "./statement.ts";

/** Options of {@linkcode attestRelease}. */
export interface AttestOptions {
  channel: string;
  version: string;
  build: Build;
  /** each signs a separate attestation */
  signing: readonly SigningKey[];
  /** keys that verify the workspace */
  keys: ReleaseKeys;
}

/** Files that were written, relative to the workspace. */
export interface Attested {
  channel: string;
  version: string;
  written: string[];
}

/**
 * Writes the attestations of a signed release's files beside them.
 *
 * @throws {SbxError} `release.unverified`: the workspace has a problem; `release.not_found`; `release.attestation.invalid`
 */
export async function attestRelease(dir: string, options: AttestOptions): Promise<Attested> {
  const { channel, version, build, signing, keys } = options;
  const { report, tree } = await verifyTree(dir, { keys });
  if (!report.ok) {
    const { subject, detail } = report.results.find(({ ok }) => !ok)!;
    throw new SbxError("release.unverified", `${dir} cannot be attested: ${subject}: ${detail}`, {
      hint: `sbx-admin release check ${dir} lists every problem`,
    });
  }
  const release = tree!.releases.find((each) => each.channel === channel && each.record.version === version);
  if (!release) {
    throw new SbxError("release.not_found", `${dir} has no release ${version} of channel "${channel}"`, {
      hint: "sbx-admin release add DIR VERSION makes one",
    });
  }
  const written: string[] = [];
  for (const artifact of release.artifacts) {
    if (artifact.path === undefined) continue;
    for (const kind of kindsFor(artifact)) {
      const statement = await statementOf(artifact, kind, release.artifacts, build);
      for (const key of signing) {
        const path = await attestationPathOf(artifact.path, kind, key.publicKey);
        await writeAtomic(path, await writeBundle(statement, key), 0o644);
        written.push(`${dirname(artifact.url)}/${basename(path)}`);
      }
    }
  }
  return { channel, version, written };
}

async function statementOf(
  artifact: Artifact,
  kind: Kind,
  artifacts: readonly Artifact[],
  build: Build,
): Promise<Statement> {
  const subject = await subjectOf(artifact.path!, basename(artifact.url));
  if (kind === "provenance") return provenance(subject, build);
  const document = kind === "obom" ? artifact : await sbomOf(artifact, artifacts);
  return documentStatement(subject, kind, JSON.parse(await Deno.readTextFile(document.path!)));
}

/** The SBOM of a package: the one that has the package's name, else the only one. */
function sbomOf({ url }: Artifact, artifacts: readonly Artifact[]): Artifact {
  const sboms = artifacts.filter(({ kind, path }) => kind === "sbom" && path !== undefined);
  const stem = basename(url).replace(/\.\w+$/, "");
  const found = sboms.find((each) => basename(each.url).startsWith(stem)) ??
    (sboms.length === 1 ? sboms[0] : undefined);
  if (found) return found;
  throw new SbxError("release.attestation.invalid", `${url} has no SBOM in its release`, {
    hint: "sbx-admin release add DIR VERSION takes it with --sbom",
  });
}

/** Name and digests of a file. */
export async function subjectOf(path: string, name = basename(path)): Promise<Subject> {
  const { sha256, blake3 } = await digestFile(path);
  return { name, digest: { sha256, blake3 } };
}
