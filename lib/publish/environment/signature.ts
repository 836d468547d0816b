/**
 * Verifies signatures of images, as cosign and the tools of containers attach them: the image's repository
 * has a manifest with the tag `sha256-HEX.sig`. Its layers are the signed claims ("simple signing"), and
 * their annotations have the signatures.
 */
import { verify } from "node:crypto";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { keyFingerprint } from "../../base/hash/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { parseReference, type Reference } from "../../release/environment/mod.ts";

/**
 * Most signatures of an image, and most `bytes` of the claims of each
 * (docs/design/contracts/14-limits.md §14).
 */
export const SIGNATURES_MAX = 32, CLAIMS_MAX = 64 * 1024;

const CLAIMS = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE = "dev.cosignproject.cosign/signature";

/** Manifest of signatures. Layers of other types are ignored. */
export const SignatureManifest = z.object({
  schemaVersion: z.literal(2),
  config: z.object({ digest: z.string(), size: z.int().min(0).max(CLAIMS_MAX) }),
  layers: z.array(z.object({
    mediaType: z.string(),
    digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
    size: z.int().min(0).max(CLAIMS_MAX),
    annotations: z.record(z.string(), z.string()).optional(),
  })).max(SIGNATURES_MAX),
});
export type SignatureManifest = z.infer<typeof SignatureManifest>;

/** Claims about an image, with their signature. */
export interface AttachedSignature {
  claims: Uint8Array;
  /** ASN.1 (DER) of ECDSA */
  signature: Uint8Array;
}

/** Whose signatures an image needs. */
export interface Signers {
  /** key of corp's `image_signatures` that applies to the image */
  scope: string;
  /** public keys in PEM; a signature by one of them is enough */
  keys: readonly string[];
}

/** A verified signature. */
export interface VerifiedSignature {
  repository: string;
  /** of the manifest, or of the list of architectures, that was signed */
  digest: string;
  /** fingerprint of the key */
  key: string;
}

/** Signatures of a manifest, with the digests of their claims. */
export function signaturesIn({ layers }: SignatureManifest): { digest: string; signature: Uint8Array }[] {
  return layers.flatMap(({ mediaType, digest, annotations }) => {
    const text = annotations?.[SIGNATURE];
    if (mediaType !== CLAIMS || text === undefined || text.length > CLAIMS_MAX) return [];
    try {
      return [{ digest, signature: Uint8Array.fromBase64(text) }];
    } catch {
      return [];
    }
  });
}

/** Critical claims; an unknown one makes the signature invalid (containers-signature(5)). */
const Claims = z.object({
  critical: z.strictObject({
    type: z.literal("cosign container image signature"),
    image: z.strictObject({ "docker-manifest-digest": z.string() }),
    identity: z.strictObject({ "docker-reference": z.string().min(1) }),
  }),
});

/**
 * Finds a signature by one of the signers for this digest and this name.
 *
 * @throws {SbxError} `environment.signature` (403): names the problem of the last signature
 */
export function requireSignature(
  reference: Reference,
  digest: string,
  attached: readonly AttachedSignature[],
  { keys, scope }: Signers,
): VerifiedSignature {
  let reason = "it has no signature";
  for (const { claims, signature } of attached) {
    const key = keys.find((pem) => isSigned(claims, signature, pem));
    if (key === undefined) {
      reason = "no key of the company's has signed it";
      continue;
    }
    const problem = problemOf(claims, reference, digest);
    if (problem === undefined) {
      return { repository: reference.repository!, digest, key: keyFingerprint(key) };
    }
    reason = problem;
  }
  throw signatureError(reference, scope, reason);
}

export function signatureError(
  { canonical }: Pick<Reference, "canonical">,
  scope: string,
  reason: string,
  cause?: unknown,
): SbxError {
  return new SbxError("environment.signature", `${canonical} was refused: ${reason}`, {
    cause,
    hint:
      `corp.limits.image_signatures wants images of ${scope} signed: ask their publisher, or your administrator`,
  });
}

function isSigned(claims: Uint8Array, signature: Uint8Array, key: string): boolean {
  try {
    return verify("sha256", claims, { key, dsaEncoding: "der" }, signature);
  } catch {
    return false;
  }
}

/** Problem of signed claims; undefined if they are about this digest and this name. */
function problemOf(bytes: Uint8Array, reference: Reference, digest: string): string | undefined {
  let claims: z.infer<typeof Claims>["critical"];
  try {
    claims = Claims.parse(parseJson(new TextDecoder().decode(bytes))).critical;
  } catch {
    return "its signature is of no claims about an image";
  }
  if (claims.image["docker-manifest-digest"] !== digest) return "its signature is for another digest";
  const name = claims.identity["docker-reference"];
  let signed: Reference;
  try {
    signed = parseReference(name);
  } catch {
    return "its signature names no image";
  }
  if (signed.kind !== "registry" || signed.repository !== reference.repository) {
    return "its signature is for another repository";
  }
  const [tag, ownTag] = [name, reference.canonical].map((text) =>
    /:([^:/@]+)$/.exec(text.split("@")[0])?.[1]
  );
  const isOther = tag !== undefined && reference.digest === undefined && tag !== ownTag;
  return isOther ? "its signature is for another tag" : undefined;
}
