/**
 * SigV4A: signatures of Amazon's APIs by a key pair of P-256, which is derived from an access key. They name
 * a set of regions in place of one, for hosts that stand for several.
 */
import {
  createECDH,
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";
import { Buffer } from "node:buffer";
import type { AwsKeys } from "./keys.ts";

export const ASYMMETRIC = "AWS4-ECDSA-P256-SHA256";
/** Name of the header field and of the parameter with the regions, in lower case. */
export const REGION_SET = "x-amz-region-set";
/** Regions, or beginnings of their names with `*`. */
const REGIONS = /^ *(?:\*|[a-z0-9-]{1,64}\*?)(?: *, *(?:\*|[a-z0-9-]{1,64}\*?)){0,31} *$/;
/** Of DER: 8 to 72 bytes. */
const SIGNATURE = /^(?:[0-9a-f]{2}){8,72}$/;
/** Order of P-256 minus two. */
const ORDER_MINUS_2 = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc63254fn;
/** Bits of a key, at the end of its derivation. */
const KEY_BITS = [0, 0, 1, 0];
/** Most numbers that are tried for a key; one in four thousand million is no key. */
const TRIALS = 254;

type Pair = Pick<AwsKeys, "id" | "secret">;

/** True for a text that can be the regions of a signature. */
export function isRegionSet(text: string): boolean {
  return REGIONS.test(text);
}

/** True if a set of regions has one. */
export function hasRegion(set: string, region: string): boolean {
  return set.split(",").map((each) => each.trim()).some((each) =>
    each.endsWith("*") ? region.startsWith(each.slice(0, -1)) : each === region
  );
}

export function isAsymmetricSignature(text: string): boolean {
  return SIGNATURE.test(text);
}

/** Signature as hexadecimal digits of DER. */
export function signAsymmetric(keys: Pair, text: string): string {
  return sign("sha256", Buffer.from(text, "latin1"), { key: pairOf(keys), dsaEncoding: "der" }).toString(
    "hex",
  );
}

export function isSignedBy(keys: Pair, text: string, signature: string): boolean {
  const key = createPublicKey(pairOf(keys));
  try {
    return verify(
      "sha256",
      Buffer.from(text, "latin1"),
      { key, dsaEncoding: "der" },
      Buffer.from(signature, "hex"),
    );
  } catch {
    // It is no DER.
    return false;
  }
}

/** The counter mode of NIST SP 800-108 with HMAC-SHA256, as Amazon describes it. */
function pairOf({ id, secret }: Pair): KeyObject {
  for (let trial = 1; trial <= TRIALS; trial++) {
    const input = Buffer.concat([
      Buffer.from([0, 0, 0, 1]),
      Buffer.from(`${ASYMMETRIC}\0${id}`, "latin1"),
      Buffer.from([trial, ...KEY_BITS]),
    ]);
    const candidate = BigInt(`0x${createHmac("sha256", `AWS4A${secret}`).update(input).digest("hex")}`);
    if (candidate > ORDER_MINUS_2) continue;
    return keyOf(Buffer.from((candidate + 1n).toString(16).padStart(64, "0"), "hex"));
  }
  throw new Error("no key of P-256 follows from the access key");
}

function keyOf(number: Buffer): KeyObject {
  const ecdh = createECDH("prime256v1");
  ecdh.setPrivateKey(number);
  // 4, x and y.
  const point = ecdh.getPublicKey();
  const [x, y, d] = [point.subarray(1, 33), point.subarray(33), number].map((part) =>
    part.toString("base64url")
  );
  return createPrivateKey({ key: { kty: "EC", crv: "P-256", x, y, d }, format: "jwk" });
}
