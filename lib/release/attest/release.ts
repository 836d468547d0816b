/** Writes the attestations of a release's files, and checks them. */
import { basename, dirname, join } from "node:path";
import { asSbxError, ifFound, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { MANIFEST, readManifest } from "../asset/mod.ts";
import {
  type Artifact,
  digestFile,
  type ReleaseKeys,
  type SigningKey,
  type TreeCheck,
  type TreeRelease,
  type TreeResult,
  type VerifiedTree,
  verifyTree,
} from "../mod.ts";
import {
  attestationPath,
  attestationPathOf,
  attestationsBeside,
  BUNDLE_BYTES_MAX,
  readBundle,
  writeBundle,
} from "./file.ts";
import {
  type Build,
  documentStatement,
  type Input,
  type Kind,
  PREDICATES,
  provenance,
  type Statement,
  type Subject,
} from "./statement.ts";

/**
 * Attestations required of a release's file (docs/design/contracts/10-release.md §10, "Release pipeline").
 */
function kindsFor({ kind, name }: Artifact): Kind[] {
  if (kind === "package") return ["provenance", "sbom"];
  if (kind !== "image") return [];
  return name === "obom.cdx.json" ? ["provenance", "obom"] : ["provenance"];
}

/**
 * Checks the attestations of every package and image of a verified tree: each is signed by a trusted key,
 * covers the file's bytes, and has the published SBOM or OBOM. Skips revoked releases.
 */
export const attestationCheck: TreeCheck = async function* (tree): AsyncGenerator<TreeResult> {
  for (const { record, artifacts } of tree.releases) {
    if (record.status === "revoked") continue;
    const sboms = artifacts.filter(({ kind }) => kind === "sbom");
    for (const artifact of artifacts) {
      for (const kind of kindsFor(artifact)) {
        if (artifact.path !== undefined) yield await checkOne(tree, artifact, kind, sboms);
      }
    }
  }
};

/**
 * One valid attestation is enough: while keys rotate, each key signs one, and a host may know only one key.
 */
async function checkOne(
  tree: VerifiedTree,
  artifact: Artifact,
  kind: Kind,
  sboms: readonly Artifact[],
): Promise<TreeResult> {
  const plain = attestationPath(artifact.path!, kind);
  const others = (await attestationsBeside(artifact.path!, kind)).filter((path) => path !== plain);
  let first: TreeResult | undefined;
  for (const path of [plain, ...others]) {
    const result = await checkBundle(path, tree, artifact, kind, sboms);
    if (result.ok) return result;
    first ??= result;
  }
  return first!;
}

async function checkBundle(
  path: string,
  { keys }: VerifiedTree,
  artifact: Artifact,
  kind: Kind,
  sboms: readonly Artifact[],
): Promise<TreeResult> {
  const subject = `${dirname(artifact.url)}/${basename(path)}`;
  try {
    const statement = await readBundle(await readSmall(path, subject), keys.trusted, subject);
    await requireAbout(statement, artifact, kind, subject);
    if (kind === "sbom") await requirePublished(statement, sboms, subject);
    if (kind === "obom") await requirePublished(statement, [artifact], subject);
    const { builder } = statement.predicate.runDetails as { builder?: { id?: unknown } } ?? {};
    return {
      check: kind,
      subject,
      ok: true,
      detail: kind === "provenance" ? `built by ${builder?.id ?? "?"}` : "the published document",
    };
  } catch (error) {
    return { check: kind, subject, ok: false, detail: asSbxError(error, subject).message };
  }
}

async function readSmall(path: string, subject: string): Promise<Uint8Array> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info?.isFile) throw invalid(`${subject} is missing`);
  if (info.size > BUNDLE_BYTES_MAX) throw invalid(`${subject} has over ${BUNDLE_BYTES_MAX} bytes`);
  return await Deno.readFile(path);
}

async function requireAbout(
  { predicateType, subject: [{ name, digest }], predicate }: Statement,
  { path, url }: Artifact,
  kind: Kind,
  source: string,
): Promise<void> {
  if (predicateType !== PREDICATES[kind]) {
    throw invalid(`${source} is a ${predicateType}, not a ${PREDICATES[kind]}`);
  }
  const actual = await digestFile(path!);
  if (name !== basename(url) || digest.sha256 !== actual.sha256) {
    throw invalid(`${source} is about ${name} with SHA-256 ${digest.sha256}, not about this file`);
  }
  if (digest.blake3 !== undefined && digest.blake3 !== actual.blake3) {
    throw invalid(`${source} has a different BLAKE3 from this file`);
  }
  if (kind === "provenance" && !isObject(predicate.buildDefinition)) {
    throw invalid(`${source} does not say how the file was built`);
  }
}

/** Requires that a statement's document equals a published file, as JSON. */
async function requirePublished(
  { predicate }: Statement,
  documents: readonly Artifact[],
  source: string,
): Promise<void> {
  const text = JSON.stringify(predicate);
  for (const { path } of documents) {
    if (path !== undefined && JSON.stringify(JSON.parse(await Deno.readTextFile(path))) === text) return;
  }
  throw invalid(`${source} has a document other than the published one`);
}

function invalid(message: string): SbxError {
  return new SbxError("release.attestation.invalid", message, {
    hint: "sbx-admin release attest DIR VERSION writes attestations; publish the whole release",
  });
}

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
 * @throws {SbxError} `release.unverified`: the workspace has a problem;
 * `release.not_found`; `release.attestation.invalid`
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
  if (kind === "provenance") {
    const inputs = artifact.kind === "image" ? await imageInputs(artifact.path!, subject) : [];
    return provenance(subject, build, inputs);
  }
  const document = kind === "obom" ? artifact : await sbomOf(artifact, artifacts);
  return documentStatement(subject, kind, JSON.parse(await Deno.readTextFile(document.path!)));
}

/**
 * Inputs of an image beside Debian's packages, from the manifest beside it. One without a manifest, or of
 * another file, says nothing.
 */
async function imageInputs(path: string, { digest }: Subject): Promise<Input[]> {
  const manifest = join(dirname(path), MANIFEST);
  const read = await ifFound(Deno.stat(manifest)) && await readManifest(manifest);
  const release = read?.manifest.assets.releases[read.manifest.assets.current];
  const files = Object.values(release?.arches ?? {}).flatMap((each) => Object.values(each));
  if (!release?.image || !files.some(({ hash }) => hash === digest.blake3)) return [];
  const { packages: { added = [] }, npm_lock, lock = {} } = release.image;
  const pins = added.flatMap((line): Input[] => {
    const [, name, sha256] = /^(.*)@sha256:([0-9a-f]{64})$/.exec(line) ?? [];
    return name === undefined ? [] : [{ name, digest: { sha256 } }];
  });
  const hex = (base64: string) => Uint8Array.fromBase64(base64).toHex();
  return [
    ...pins,
    ...Object.entries(npm_lock).map(([name, integrity]): Input => ({
      name: `npm:${name}`,
      digest: { sha512: hex(integrity.slice("sha512-".length)) },
    })),
    ...Object.entries(lock).map(([name, hash]): Input => ({
      name,
      // Go's hash of a module's files, as in-toto calls it.
      digest: hash.startsWith("h1:")
        ? { dirHash: hex(hash.slice("h1:".length)) }
        : { sha256: hash.slice("sha256:".length) },
    })),
  ];
}

/** SBOM of a package: the one with the package's name, or else the only one. */
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

/** Files that releases consist of, without the index. Asset manifests and attestations need not be there. */
export async function filesOfReleases(releases: readonly TreeRelease[]): Promise<string[]> {
  const names = new Set<string>();
  for (const { record, artifacts } of releases) {
    for (const artifact of artifacts) {
      const { kind, url, path } = artifact;
      if (path === undefined) continue;
      names.add(url);
      for (const each of kindsFor(artifact)) {
        for (const bundle of await attestationsBeside(path, each)) {
          names.add(join(dirname(url), basename(bundle)));
        }
      }
      // The asset manifest beside an image, for sbx update --assets.
      if (kind === "image") names.add(join(dirname(url), MANIFEST));
    }
    names.add(record.url);
  }
  return [...names];
}
