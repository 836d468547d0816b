/** Signatures of images in a registry, as cosign attaches them. */
import { createHash, generateKeyPairSync, type KeyObject, sign } from "node:crypto";

/** A signer's keys; the public one in PEM. */
export function makeSigner(): { publicKey: string; privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { publicKey: publicKey.export({ type: "spki", format: "pem" }) as string, privateKey };
}

/** A signature, and how it differs from a right one. */
export interface SignatureParts {
  /** of the registry */
  host: string;
  repository: string;
  /** of the manifest that the signature is attached to */
  digest: string;
  privateKey: KeyObject;
  /** claims in place of the right ones */
  claims?: Uint8Array;
  /** reference in the claims */
  identity?: string;
  /** digest in the claims */
  signedDigest?: string;
  /** size of the claims in the manifest, where it is another than their own */
  size?: number;
}

/** Claims about an image ("simple signing"). */
export function claimsOf(identity: string, digest: string): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({
    critical: {
      identity: { "docker-reference": identity },
      image: { "docker-manifest-digest": digest },
      type: "cosign container image signature",
    },
    optional: null,
  }));
}

/** Puts a signature beside an image in a registry on loopback. */
export async function attachSignature(parts: SignatureParts): Promise<void> {
  const { host, repository, digest, privateKey, identity, signedDigest, size } = parts;
  const claims = parts.claims ?? claimsOf(identity ?? `${host}/${repository}`, signedDigest ?? digest);
  const put = async (bytes: Uint8Array) => {
    const name = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
    const begun = await fetch(`http://${host}/v2/${repository}/blobs/uploads/`, { method: "POST" });
    await begun.body?.cancel();
    const url = new URL(begun.headers.get("location")!, `http://${host}`);
    url.searchParams.set("digest", name);
    const headers = { "content-type": "application/octet-stream" };
    const done = await fetch(url, { method: "PUT", body: bytes as Uint8Array<ArrayBuffer>, headers });
    if (!done.ok) throw new Error(await done.text());
    await done.body?.cancel();
    return { digest: name, size: bytes.length };
  };
  const layer = await put(claims);
  const config = await put(new TextEncoder().encode(JSON.stringify({
    architecture: "",
    os: "",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  })));
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.oci.image.manifest.v1+json",
    config: { mediaType: "application/vnd.oci.image.config.v1+json", ...config },
    layers: [{
      mediaType: "application/vnd.dev.cosign.simplesigning.v1+json",
      ...layer,
      ...size !== undefined && { size },
      annotations: {
        "dev.cosignproject.cosign/signature": sign("sha256", claims, privateKey).toString("base64"),
      },
    }],
  });
  const response = await fetch(`http://${host}/v2/${repository}/manifests/${digest.replace(":", "-")}.sig`, {
    method: "PUT",
    body: manifest,
    headers: { "content-type": "application/vnd.oci.image.manifest.v1+json" },
  });
  if (!response.ok) throw new Error(await response.text());
  await response.body?.cancel();
}
