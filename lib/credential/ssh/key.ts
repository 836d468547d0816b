/** Keys of SSH: public ones as in `authorized_keys`, private ones as PKCS #8 in base64, the form in which they are secrets. */
import { Buffer } from "node:buffer";
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { SbxError } from "../../base/error/mod.ts";
import { joinBytes } from "../../base/bytes/mod.ts";
import { isSecret, SECRET_MAX } from "../form.ts";

/** Fewest bits of an RSA key. */
const RSA_BITS_MIN = 2048;
/** Longest public key in its line, in characters; RSA of 16,384 bits has 2,800. */
const PUBLIC_KEY_MAX = 4096;

/** Curves by the types of their keys: name in JWK, `bytes` of a coordinate, hash of signatures. */
const CURVES: Readonly<Record<string, { crv: string; bytes: number; hash: string }>> = {
  "ecdsa-sha2-nistp256": { crv: "P-256", bytes: 32, hash: "sha256" },
  "ecdsa-sha2-nistp384": { crv: "P-384", bytes: 48, hash: "sha384" },
  "ecdsa-sha2-nistp521": { crv: "P-521", bytes: 66, hash: "sha512" },
};

/** Types of keys; DSA is broken, and keys of security devices need their device. */
export const KEY_TYPES: readonly string[] = ["ssh-ed25519", "ssh-rsa", ...Object.keys(CURVES)];

/** A public key: its type and its bytes in base64. */
const PUBLIC_KEY = /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]+={0,2})$/;

/** Type and bytes of a public key; `undefined` for another text, and for a key whose bytes are of another type. */
export function parsePublicKey(line: string): { type: string; blob: Uint8Array<ArrayBuffer> } | undefined {
  if (line.length > PUBLIC_KEY_MAX) return undefined;
  const [, type, text] = PUBLIC_KEY.exec(line) ?? [];
  if (type === undefined) return undefined;
  try {
    const blob = Uint8Array.fromBase64(text);
    const [first, ...fields] = readStrings(blob);
    if (decode(first) !== type || fields.length === 0) return undefined;
    publicKeyObject(blob);
    return { type, blob };
  } catch {
    return undefined;
  }
}

/** Fingerprint of a public key, as `ssh-keygen -l` shows it. */
export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`;
}

/** True for the private key of a supported type, as a secret holds it. */
export function isSshSecret(secret: string): boolean {
  try {
    return publicKeyOf(secret) !== undefined;
  } catch {
    return false;
  }
}

/** Public key of a private one, as a line. @throws {Error} no such key */
export function publicKeyOf(secret: string): string {
  const blob = blobOf(createPublicKey(privateKeyObject(secret)));
  return `${decode(readStrings(blob)[0])} ${blob.toBase64()}`;
}

/**
 * Signs for the authentication of a user.
 *
 * @param algorithm such as `rsa-sha2-512`; of another key than RSA its type
 * @returns the signature: DER of an ECDSA one
 * @throws {Error} an algorithm with SHA-1, or of another type
 */
export function signWith(secret: string, data: Uint8Array, algorithm: string): Uint8Array {
  return new Uint8Array(sign(hashOf(algorithm), data, privateKeyObject(secret)));
}

/**
 * Checks a signature of SSH, which an agent made.
 *
 * @param signature the algorithm's name and the signature (RFC 4253 §6.6)
 * @returns the signature as {@linkcode signWith} makes it; `undefined` for one of another key, data or algorithm
 */
export function checkSignature(
  blob: Uint8Array,
  data: Uint8Array,
  algorithm: string,
  signature: Uint8Array,
): Uint8Array | undefined {
  try {
    const [name, bytes, ...more] = readStrings(signature);
    if (decode(name) !== algorithm || bytes === undefined || more.length > 0) return undefined;
    const plain = algorithm in CURVES ? derOf(readStrings(bytes)) : bytes;
    return verify(hashOf(algorithm), data, publicKeyObject(blob), plain) ? plain : undefined;
  } catch {
    return undefined;
  }
}

function hashOf(algorithm: string): string | null {
  if (algorithm === "ssh-ed25519") return null;
  const hash = { "rsa-sha2-256": "sha256", "rsa-sha2-512": "sha512" }[algorithm] ?? CURVES[algorithm]?.hash;
  if (hash === undefined) throw new Error(`the signature algorithm ${algorithm} is not used`);
  return hash;
}

/**
 * Reads the private key in a file of OpenSSH or OpenSSL.
 *
 * @param passphrase of an encrypted key
 * @returns the secret
 * @throws {SbxError} `credential.invalid`; `credential.locked`: it needs a passphrase
 */
export async function readPrivateKey(text: string, passphrase?: string): Promise<string> {
  const key = await openPrivateKey(text, passphrase);
  const secret = key.export({ type: "pkcs8", format: "der" }).toString("base64");
  if (!isSecret(secret)) {
    throw invalid(`the key is longer than ${SECRET_MAX} characters`, "use Ed25519, or RSA of 4,096 bits");
  }
  publicKeyOf(secret);
  return secret;
}

async function openPrivateKey(text: string, passphrase?: string): Promise<KeyObject> {
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----/m.test(text)) {
    throw invalid("the file has no private key", "name the file that has no .pub behind its name");
  }
  const isLocked = /BEGIN ENCRYPTED PRIVATE KEY|^Proc-Type: 4,ENCRYPTED/m.test(text);
  if (/BEGIN (?:ENCRYPTED )?PRIVATE KEY/.test(text)) {
    if (isLocked && passphrase === undefined) throw locked();
    try {
      return createPrivateKey({ key: text, format: "pem", ...(passphrase !== undefined && { passphrase }) });
    } catch (cause) {
      throw isLocked ? wrongPassphrase(cause) : unreadable(cause);
    }
  }
  const { default: { utils } } = await import("ssh2");
  const parsed = utils.parseKey(text, passphrase);
  const found = Array.isArray(parsed) ? parsed[0] : parsed;
  if (found instanceof Error) {
    if (/no passphrase/i.test(found.message)) throw locked();
    throw passphrase === undefined ? unreadable(found) : wrongPassphrase(found);
  }
  try {
    const pem: string = found.getPrivatePEM();
    const der = derIn(pem);
    if (found.type in CURVES) return ecKey(der, CURVES[found.type]);
    const type = pem.includes("RSA PRIVATE KEY") ? "pkcs1" as const : "pkcs8" as const;
    return createPrivateKey({ key: der, format: "der", type });
  } catch (cause) {
    throw passphrase === undefined ? unreadable(cause) : wrongPassphrase(cause);
  }
}

/** The key in a PEM of the library, which leaves the padding of an encrypted one behind it. */
function derIn(pem: string): Buffer {
  const bytes = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");
  const more = bytes[1] < 0x80 ? 0 : bytes[1] & 0x7f;
  const length = more === 0 ? bytes[1] : bytes.readUIntBE(2, more);
  return bytes.subarray(0, 2 + more + length);
}

/** The library writes some keys with a zero in front, which others do not read. */
function ecKey(der: Buffer, { crv, bytes }: { crv: string; bytes: number }): KeyObject {
  // SEQUENCE { INTEGER 1, OCTET STRING d, [0] OID, [1] BIT STRING point }
  const at = der[1] < 0x80 ? 2 : 2 + (der[1] & 0x7f);
  const length = der[at + 4];
  const d = der.subarray(at + 5, at + 5 + length);
  const fixed = new Uint8Array(bytes);
  const plain = d.subarray(Math.max(0, d.length - bytes));
  fixed.set(plain, bytes - plain.length);
  const [x, y] = [der.subarray(-2 * bytes, -bytes), der.subarray(-bytes)];
  const jwk = { kty: "EC", crv, d: base64url(fixed), x: base64url(x), y: base64url(y) };
  return createPrivateKey({ key: jwk, format: "jwk" });
}

function invalid(problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("credential.invalid", problem, { hint, cause });
}

function unreadable(cause: unknown): SbxError {
  return invalid(
    "the private key cannot be read",
    "use Ed25519, ECDSA, or RSA: ssh-keygen -t ed25519",
    cause,
  );
}

function wrongPassphrase(cause: unknown): SbxError {
  return invalid("the passphrase does not open the key", "try again", cause);
}

function locked(): SbxError {
  return new SbxError("credential.locked", "the private key has a passphrase", {
    hint: "run it on a terminal, which asks for the passphrase, or let an agent hold the key: --agent",
  });
}

function privateKeyObject(secret: string): KeyObject {
  return createPrivateKey({ key: Buffer.from(secret, "base64"), format: "der", type: "pkcs8" });
}

// Public keys as bytes (RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709).

/** @throws {Error} a type that is not supported */
function blobOf(key: KeyObject): Uint8Array<ArrayBuffer> {
  const { kty, crv, x, y, n, e } = key.export({ format: "jwk" }) as Record<string, string | undefined>;
  if (kty === "OKP" && crv === "Ed25519") return strings("ssh-ed25519", bytesOf(x));
  if (kty === "RSA") {
    const modulus = bytesOf(n);
    if (modulus.length * 8 < RSA_BITS_MIN) {
      throw invalid(`an RSA key needs at least ${RSA_BITS_MIN} bits`, "make another: ssh-keygen -t ed25519");
    }
    return strings("ssh-rsa", mpint(bytesOf(e)), mpint(modulus));
  }
  const [type, curve] = Object.entries(CURVES).find(([, each]) => each.crv === crv) ?? [];
  if (kty !== "EC" || !type || !curve) {
    throw invalid("the key is of no type that sbx signs with", "use Ed25519, ECDSA or RSA");
  }
  const point = joinBytes([Uint8Array.of(4), bytesOf(x), bytesOf(y)]);
  return strings(type, type.slice("ecdsa-sha2-".length), point);
}

function publicKeyObject(blob: Uint8Array): KeyObject {
  const [name, ...fields] = readStrings(blob);
  const type = decode(name);
  if (type === "ssh-ed25519" && fields.length === 1 && fields[0].length === 32) {
    return createPublicKey({
      key: { kty: "OKP", crv: "Ed25519", x: base64url(fields[0]) },
      format: "jwk",
    });
  }
  if (type === "ssh-rsa" && fields.length === 2) {
    const [e, n] = fields.map(unsigned);
    if (n.length * 8 < RSA_BITS_MIN) throw new Error("a short RSA key");
    return createPublicKey({ key: { kty: "RSA", e: base64url(e), n: base64url(n) }, format: "jwk" });
  }
  const curve = CURVES[type];
  const [, point] = fields;
  if (!curve || fields.length !== 2 || point.length !== 1 + 2 * curve.bytes || point[0] !== 4) {
    throw new Error("a key of another type");
  }
  const [x, y] = [point.subarray(1, 1 + curve.bytes), point.subarray(1 + curve.bytes)];
  return createPublicKey({
    key: { kty: "EC", crv: curve.crv, x: base64url(x), y: base64url(y) },
    format: "jwk",
  });
}

/** Strings of RFC 4251 §5, each behind its length. @throws {Error} a length beyond the end */
export function readStrings(bytes: Uint8Array): Uint8Array[] {
  const found: Uint8Array[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length;) {
    const length = view.getUint32(at);
    at += 4;
    if (length > bytes.length - at) throw new Error("a string beyond the end");
    found.push(bytes.subarray(at, at + length));
    at += length;
  }
  return found;
}

/** The first string of bytes that go on in another form. @throws {Error} they are too short */
export function firstString(bytes: Uint8Array): Uint8Array {
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0);
  if (length > bytes.length - 4) throw new Error("a string beyond the end");
  return bytes.subarray(4, 4 + length);
}

/** Writes strings of RFC 4251 §5. */
export function strings(...fields: (string | Uint8Array)[]): Uint8Array<ArrayBuffer> {
  return joinBytes(fields.flatMap((field): Uint8Array<ArrayBuffer>[] => {
    const bytes = typeof field === "string" ? new TextEncoder().encode(field) : field;
    const length = new Uint8Array(4);
    new DataView(length.buffer).setUint32(0, bytes.length);
    return [length, new Uint8Array(bytes)];
  }));
}

/** DER of an ECDSA signature from its two numbers. */
function derOf([r, s]: Uint8Array[]): Uint8Array {
  const integer = (number: Uint8Array) => {
    const bytes = mpint(unsigned(number));
    return [Uint8Array.of(2, bytes.length), bytes];
  };
  const body = joinBytes([...integer(r), ...integer(s)]);
  const head = body.length < 0x80 ? [0x30, body.length] : [0x30, 0x81, body.length];
  return joinBytes([Uint8Array.from(head), body]);
}

function mpint(bytes: Uint8Array): Uint8Array {
  const plain = unsigned(bytes);
  return plain[0] >= 0x80 ? joinBytes([Uint8Array.of(0), plain]) : plain;
}

function unsigned(bytes: Uint8Array): Uint8Array {
  const first = bytes.findIndex((byte) => byte !== 0);
  return first < 0 ? Uint8Array.of(0) : bytes.subarray(first);
}

function bytesOf(text = ""): Uint8Array<ArrayBuffer> {
  return Uint8Array.fromBase64(text, { alphabet: "base64url" });
}

function base64url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

function decode(bytes: Uint8Array | undefined): string {
  return new TextDecoder("latin1").decode(bytes);
}
