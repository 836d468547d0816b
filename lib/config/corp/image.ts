/** OCI images that corp allows (docs/design/contracts/03-settings.md §3, "Corp limits"). */
import { SbxError } from "../../base/error/mod.ts";
import { keyFingerprint } from "../../base/hash/mod.ts";
import { parseReference } from "../../release/environment/mod.ts";
import type { CorpState } from "./store.ts";

/** An image, by the names and digests that it has. */
interface NamedImage {
  /** canonical */
  reference: string;
  /** absent: not known yet */
  digest?: string;
  provenance?: {
    index_digest?: string;
    signatures?: Signature[];
    build?: { bases: { reference: string; digest: string; signature?: Signature }[] };
  };
}

interface Signature {
  repository: string;
  /** fingerprint of the key */
  key: string;
}

/**
 * Refuses images that corp does not list, or that lack a signature which corp requires. Entries are
 * registries, repositories, and images pinned by digest; so an image from a folder, an archive or a Docker
 * daemon is refused. Before its digest is known, an image of a pinned repository and one without a
 * signature pass: they are checked again.
 *
 * @throws {SbxError} `corp.image`, `corp.image_signature` (403)
 */
export function requireCorpImage(state: CorpState, image: NamedImage): void {
  const { reference, digest, provenance } = image;
  const { images, image_digests } = limitsOf(state) ?? {};
  if (image_digests && isOfRegistry(reference) && !reference.includes("@")) {
    throw new SbxError("corp.image", `corp allows images by digest only, and not ${reference}`, {
      hint: "write NAME@sha256:…, with the digest that its publisher names",
    });
  }
  if (images !== undefined) requireListed(images, image);
  requireSigned(state, reference, digest === undefined ? undefined : provenance?.signatures ?? []);
  for (const base of provenance?.build?.bases ?? []) requireCorpBase(state, base);
}

/**
 * Refuses a base image of a build, as its VM reports it.
 *
 * @throws {SbxError} `corp.image`, `corp.image_signature`
 */
export function requireCorpBase(
  state: CorpState,
  { reference: name, signature }: { reference: string; signature?: Signature },
): void {
  if (limitsOf(state) === undefined) return;
  const reference = parseReference(name).canonical;
  if (limitsOf(state)?.image_digests && !reference.includes("@")) {
    throw new SbxError("corp.image", `corp allows base images by digest only, and not ${reference}`, {
      hint: "write FROM NAME@sha256:…, with the digest that its publisher names",
    });
  }
  requireSigned(state, reference, signature ? [signature] : []);
}

function requireListed(images: string[], { reference, digest, provenance }: NamedImage): void {
  const repository = repositoryOf(reference);
  const pinned = /@(sha256:.*)$/.exec(reference)?.[1];
  const isAllowed = images.some((entry) => {
    const [name, pin] = entry.split("@");
    if (!isWithin(repository, name) || (pin !== undefined && repository !== name)) return false;
    return pin === undefined || (digest ?? pinned) === undefined ||
      [digest, pinned, provenance?.index_digest].includes(pin);
  });
  if (isAllowed) return;
  throw new SbxError(
    "corp.image",
    `corp does not allow the image ${reference}${digest ? ` (${digest})` : ""}`,
    {
      hint: images.length > 0 ? `corp allows ${images.slice(0, 10).join(", ")}` : "corp allows no image",
    },
  );
}

/**
 * The signers that corp requires for an image.
 *
 * @returns undefined: it needs no signature
 * @throws {SbxError} `corp.image_signature`: corp requires signatures, and names no signer for it
 */
export function signersOf(
  state: CorpState,
  reference: string,
): { scope: string; keys: readonly string[] } | undefined {
  const table = limitsOf(state)?.image_signatures;
  if (table === undefined) return undefined;
  const name = isOfRegistry(reference) ? repositoryOf(reference) : reference.slice(0, reference.indexOf(":"));
  const [scope] = Object.keys(table).filter((scope) => isWithin(name, scope)).sort((a, b) =>
    b.length - a.length
  );
  if (scope === undefined) {
    throw new SbxError(
      "corp.image_signature",
      `corp requires signed images, and names no signer of ${reference}`,
      {
        hint: `signers are named for ${Object.keys(table).slice(0, 10).join(", ") || "no image"}`,
      },
    );
  }
  const keys = table[scope];
  return keys.length > 0 ? { scope, keys } : undefined;
}

/** @param signatures that were verified; absent: not known yet */
function requireSigned(state: CorpState, reference: string, signatures: Signature[] | undefined): void {
  const signers = signersOf(state, reference);
  if (!signers || !signatures) return;
  const keys = signers.keys.map(keyFingerprint);
  const repository = repositoryOf(reference);
  if (signatures.some((each) => each.repository === repository && keys.includes(each.key))) return;
  throw new SbxError(
    "corp.image_signature",
    `no signature of ${reference} was verified, which corp requires`,
    {
      hint: `verify it: sbx image pull ${reference}; a built image: sbx image build DIR --pull`,
    },
  );
}

function limitsOf(state: CorpState) {
  return "config" in state ? state.config.file.corp.limits : undefined;
}

function isOfRegistry(reference: string): boolean {
  return !/^(oci|docker-archive|docker-daemon):/.test(reference) &&
    !isWithin(repositoryOf(reference), "localhost");
}

function repositoryOf(reference: string): string {
  return reference.replace(/(@sha256:.*|:[^/:]*)$/, "");
}

/** Tests whether a repository is one of a registry, or is below another one. */
function isWithin(repository: string, scope: string): boolean {
  return repository === scope || repository.startsWith(`${scope.replace(/\/$/, "")}/`);
}
