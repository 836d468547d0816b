/**
 * Public SSH keys as lines and as bytes (RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709), and
 * signatures of their private ones.
 */
import { Buffer } from "node:buffer";
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { joinBytes } from "../bytes/mod.ts";
import { mpint, Reader, string } from "./wire.ts";

/** Fewest bits of an RSA key, as OpenSSH. */
const RSA_BITS_MIN = 2048;
/** Longest public key in its line, in characters; RSA of 16,384 bits has 2,800. */
const LINE_MAX = 4096;

/** Curves of ECDSA by their names in keys: the name in JWK, `bytes` of a number, hash of signatures. */
const CURVES: Readonly<Record<string, { crv: string; size: number; hash: string }>> = {
  nistp256: { crv: "P-256", size: 32, hash: "sha256" },
  nistp384: { crv: "P-384", size: 48, hash: "sha384" },
  nistp521: { crv: "P-521", size: 66, hash: "sha512" },
};
const RSA_HASHES: Readonly<Record<string, string>> = { "rsa-sha2-256": "sha256", "rsa-sha2-512": "sha512" };

/**
 * A public key as SSH has it: Ed25519, ECDSA, or RSA. DSA is broken, and keys of
 * security devices need their device.
 */
export interface PublicKey {
  type: string;
  blob: Uint8Array<ArrayBuffer>;
  /** `TYPE BASE64`, without a comment */
  line: string;
  /** `SHA256:…`, as `ssh-keygen -l` */
  fingerprint: string;
  /** `bytes` of one number of a signature by ECDSA */
  size?: number;
  key: KeyObject;
}

/** A key that cannot be used: the reason, and in the hint what to do. */
export class SshKeyError extends Error {
  /** a passphrase is missing */
  readonly isLocked: boolean;

  constructor(message: string, readonly hint: string, options: { isLocked?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.isLocked = options.isLocked === true;
  }
}

const url = (bytes: Uint8Array) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
const bytesOf = (text = "") => Uint8Array.fromBase64(text, { alphabet: "base64url" });

/** Reads the line of a public key; a comment behind it is left out. @throws {SshKeyError} */
export function readPublicKey(text: string): PublicKey {
  try {
    if (text.length > LINE_MAX) throw new RangeError("a line that is too long");
    const [type, base64] = text.trim().split(/\s+/);
    const found = publicKeyIn(Uint8Array.fromBase64(base64 ?? ""));
    if (found.type === type) return found;
  } catch (error) {
    if (error instanceof SshKeyError) throw error;
  }
  throw new SshKeyError(
    "it is not the line of a public SSH key",
    "give the file that ends in .pub, or its line",
  );
}

/** Reads a public key that is its type and its bytes exactly. @returns `undefined` for another text */
export function parsePublicKey(line: string): PublicKey | undefined {
  try {
    const found = readPublicKey(line);
    return found.line === line ? found : undefined;
  } catch {
    return undefined;
  }
}

/** @throws {RangeError} the blob is cut short; {@linkcode SshKeyError}: a kind that is not supported */
export function publicKeyIn(blob: Uint8Array<ArrayBuffer>): PublicKey {
  const reader = new Reader(blob);
  const type = reader.text();
  const { jwk, size } = jwkOf(type, reader);
  reader.requireEnd();
  return {
    type,
    blob,
    line: `${type} ${blob.toBase64()}`,
    fingerprint: `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`,
    ...(size !== undefined && { size }),
    key: createPublicKey({ key: jwk, format: "jwk" }),
  };
}

function jwkOf(type: string, reader: Reader): { jwk: Record<string, string>; size?: number } {
  if (type === "ssh-ed25519") {
    const x = reader.string();
    if (x.length !== 32) throw new RangeError("a key of another length");
    return { jwk: { kty: "OKP", crv: "Ed25519", x: url(x) } };
  }
  if (type === "ssh-rsa") {
    const [e, n] = [reader.mpint(), reader.mpint()];
    requireBits(n);
    return { jwk: { kty: "RSA", e: url(e), n: url(n) } };
  }
  const curve = curveOf(type);
  if (!curve) throw unusedKind();
  const named = reader.text();
  const point = reader.string();
  if (!type.endsWith(`-${named}`) || point.length !== 1 + 2 * curve.size || point[0] !== 4) {
    throw new RangeError("no point of its curve");
  }
  const [x, y] = [point.slice(1, 1 + curve.size), point.slice(1 + curve.size)];
  return { jwk: { kty: "EC", crv: curve.crv, x: url(x), y: url(y) }, size: curve.size };
}

/**
 * Public half of a private key.
 * @param secret base64 of PKCS #8
 * @throws {SshKeyError} a kind that is not supported; {@linkcode Error}: not a key
 */
export function publicKeyOf(secret: string): PublicKey {
  const { kty, crv, x, y, n, e } = createPublicKey(privateKeyObject(secret)).export({
    format: "jwk",
  }) as Record<string, string | undefined>;
  if (kty === "OKP" && crv === "Ed25519") {
    return publicKeyIn(joinBytes([string("ssh-ed25519"), string(bytesOf(x))]));
  }
  if (kty === "RSA") return publicKeyIn(joinBytes([string("ssh-rsa"), mpint(bytesOf(e)), mpint(bytesOf(n))]));
  const [name] = Object.entries(CURVES).find(([, each]) => kty === "EC" && each.crv === crv) ?? [];
  if (name === undefined) throw unusedKind();
  const point = joinBytes([Uint8Array.of(4), bytesOf(x), bytesOf(y)]);
  return publicKeyIn(joinBytes([string(`ecdsa-sha2-${name}`), string(name), string(point)]));
}

/** True for a secret that is a private key of a supported kind: base64 of PKCS #8. */
export function isSshSecret(secret: string): boolean {
  try {
    return publicKeyOf(secret) !== undefined;
  } catch {
    return false;
  }
}

function requireBits(modulus: Uint8Array): void {
  if (modulus.length * 8 >= RSA_BITS_MIN) return;
  throw new SshKeyError(
    `the RSA key has fewer than ${RSA_BITS_MIN} bits`,
    "make another: ssh-keygen -t ed25519",
  );
}

function unusedKind(): SshKeyError {
  return new SshKeyError(
    "its kind is not supported: Ed25519, ECDSA and RSA are",
    "make another: ssh-keygen -t ed25519; keys on a security key are not supported yet",
  );
}

// Signatures: a name of an algorithm and its bytes (RFC 4253 §6.6). ECDSA's two numbers are
// of one size here (IEEE P1363).

/**
 * Signs with a private key.
 *
 * @param secret base64 of PKCS #8
 * @param algorithm such as `rsa-sha2-512`; of another key than RSA its type
 * @returns the plain signature
 * @throws {Error} an algorithm with SHA-1, or of another type
 */
export function signPlain(secret: string, data: Uint8Array, algorithm: string): Uint8Array {
  const key = privateKeyObject(secret);
  return new Uint8Array(sign(hashOf(algorithm), data, { key, dsaEncoding: "ieee-p1363" }));
}

/** A plain signature as SSH has it. */
export function sshSignature(plain: Uint8Array, algorithm: string): Uint8Array<ArrayBuffer> {
  const size = curveOf(algorithm)?.size;
  const blob = size === undefined
    ? plain
    : joinBytes([mpint(plain.subarray(0, size)), mpint(plain.subarray(size))]);
  return joinBytes([string(algorithm), string(blob)]);
}

/**
 * Checks a signature as SSH has it.
 * @returns the plain one; `undefined` for one of another key, data or algorithm
 */
export function checkSignature(
  { type, key, size }: PublicKey,
  data: Uint8Array,
  algorithm: string,
  signature: Uint8Array,
): Uint8Array | undefined {
  try {
    const reader = new Reader(signature);
    const name = reader.text();
    const blob = reader.string();
    reader.requireEnd();
    const isOfKey = type === "ssh-rsa" ? Object.hasOwn(RSA_HASHES, algorithm) : algorithm === type;
    if (name !== algorithm || !isOfKey) return undefined;
    const plain = size === undefined ? blob : numbersOf(blob, size);
    const isValid = verify(hashOf(algorithm), data, { key, dsaEncoding: "ieee-p1363" }, plain);
    return isValid ? plain : undefined;
  } catch {
    return undefined;
  }
}

function numbersOf(blob: Uint8Array, size: number): Uint8Array {
  const reader = new Reader(blob);
  const both = joinBytes([reader.mpint(size), reader.mpint(size)]);
  reader.requireEnd();
  return both;
}

function hashOf(algorithm: string): string | null {
  if (algorithm === "ssh-ed25519") return null;
  const hash = (Object.hasOwn(RSA_HASHES, algorithm) ? RSA_HASHES[algorithm] : undefined) ??
    curveOf(algorithm)?.hash;
  if (hash === undefined) throw new Error(`the signature algorithm ${algorithm} is not used`);
  return hash;
}

/** The curve of a type of keys, which is the name of its signatures' algorithm too. */
export function curveOf(type: string): { crv: string; size: number; hash: string } | undefined {
  const name = /^ecdsa-sha2-(nistp\d{3})$/.exec(type)?.[1] ?? "";
  return Object.hasOwn(CURVES, name) ? CURVES[name] : undefined;
}

function privateKeyObject(secret: string): KeyObject {
  return createPrivateKey({ key: Buffer.from(secret, "base64"), format: "der", type: "pkcs8" });
}
