/**
 * Reads private SSH keys from files of OpenSSH and OpenSSL into PKCS #8, the
 * form in which secrets are stored.
 */
import { Buffer } from "node:buffer";
import { createPrivateKey, type KeyObject } from "node:crypto";
import { curveOf, type PublicKey, publicKeyOf, SshKeyError } from "./public.ts";
import { Reader } from "./wire.ts";

const MAGIC = "openssh-key-v1\0";
/** File of OpenSSH; group 1 is its base64. */
const OPENSSH =
  /^-----BEGIN OPENSSH PRIVATE KEY-----\s([\sA-Za-z0-9+/=]+)-----END OPENSSH PRIVATE KEY-----\s*$/;

/** A private key: its secret, and its public facts. */
export interface PrivateKey {
  /** base64 of PKCS #8 */
  secret: string;
  public: PublicKey;
  /** from the file; empty for files of OpenSSL */
  comment: string;
}

/**
 * Reads the private key in a file of OpenSSH or OpenSSL.
 *
 * @param passphrase of an encrypted key
 * @throws {SshKeyError} with `isLocked` where it needs a passphrase
 */
export async function readPrivateKey(text: string, passphrase?: string): Promise<PrivateKey> {
  const { key, comment } = await openKey(text, passphrase);
  const secret = key.export({ type: "pkcs8", format: "der" }).toString("base64");
  const publicKey = publicKeyOf(secret);
  // OpenSSH shows the file's public half and servers see the private one's: a forged file has two keys.
  const written = writtenBlob(text);
  if (written && publicKey.blob.toBase64() !== written.toBase64()) throw unreadable();
  return { secret, public: publicKey, comment };
}

interface OpenKey {
  key: KeyObject;
  comment: string;
}

async function openKey(text: string, passphrase?: string): Promise<OpenKey> {
  if (!/^-----BEGIN [A-Z ]*PRIVATE KEY-----/m.test(text)) {
    throw new SshKeyError("the file has no private key", "give the file without .pub at the end of its name");
  }
  return /BEGIN (?:ENCRYPTED )?PRIVATE KEY/.test(text)
    ? openPkcs8(text, passphrase)
    : await openBySsh2(text, passphrase);
}

function openPkcs8(text: string, passphrase?: string): OpenKey {
  const isLocked = /BEGIN ENCRYPTED PRIVATE KEY/.test(text);
  if (isLocked && passphrase === undefined) throw locked();
  try {
    const key = createPrivateKey({
      key: text,
      format: "pem",
      ...(passphrase !== undefined && { passphrase }),
    });
    return { key, comment: "" };
  } catch (cause) {
    throw isLocked ? wrongPassphrase(cause) : unreadable(cause);
  }
}

/** Opens a key in OpenSSH's own format, or in one that OpenSSL had before PKCS #8; Node reads neither. */
async function openBySsh2(text: string, passphrase?: string): Promise<OpenKey> {
  // Loaded here: few commands read a key, and the library takes long to load.
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
    const type = pem.includes("RSA PRIVATE KEY") ? "pkcs1" as const : "pkcs8" as const;
    const curve = curveOf(found.type);
    const key = curve ? ecKey(der, curve) : createPrivateKey({ key: der, format: "der", type });
    return { key, comment: found.comment ?? "" };
  } catch (cause) {
    throw passphrase === undefined ? unreadable(cause) : wrongPassphrase(cause);
  }
}

/** The public half that a file of OpenSSH has in clear. @returns `undefined` for a file of OpenSSL */
function writtenBlob(text: string): Uint8Array | undefined {
  const base64 = OPENSSH.exec(text.trim())?.[1];
  if (base64 === undefined) return undefined;
  const reader = new Reader(Uint8Array.fromBase64(base64));
  reader.take(MAGIC.length);
  // Cipher, key derivation and its options; then the number of keys.
  for (let at = 0; at < 3; at++) reader.string();
  reader.uint32();
  return reader.string();
}

/** The DER in a PEM of ssh2, cut at its end: ssh2 leaves the padding of an encrypted key behind it. */
function derIn(pem: string): Buffer {
  const bytes = Buffer.from(pem.replace(/-----[^-]+-----|\s/g, ""), "base64");
  // DER has a short length in one byte, and else the number of length bytes in its low seven bits.
  const lengthBytes = bytes[1] < 0x80 ? 0 : bytes[1] & 0x7f;
  const length = lengthBytes === 0 ? bytes[1] : bytes.readUIntBE(2, lengthBytes);
  return bytes.subarray(0, 2 + lengthBytes + length);
}

/** Reads an ECDSA key of ssh2, which writes some numbers with a leading zero that Node's parser refuses. */
function ecKey(der: Buffer, { crv, size }: { crv: string; size: number }): KeyObject {
  // SEQUENCE { INTEGER 1, OCTET STRING d, [0] OID, [1] BIT STRING point }
  const at = der[1] < 0x80 ? 2 : 2 + (der[1] & 0x7f);
  const length = der[at + 4];
  const d = der.subarray(at + 5, at + 5 + length);
  const fixed = new Uint8Array(size);
  const plain = d.subarray(Math.max(0, d.length - size));
  fixed.set(plain, size - plain.length);
  const url = (bytes: Uint8Array) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });
  const [x, y] = [der.subarray(-2 * size, -size), der.subarray(-size)];
  return createPrivateKey({ key: { kty: "EC", crv, d: url(fixed), x: url(x), y: url(y) }, format: "jwk" });
}

function unreadable(cause?: unknown): SshKeyError {
  return new SshKeyError(
    "the private key cannot be read",
    "ssh-keygen -y -f FILE shows whether it can be used; use Ed25519, ECDSA, or RSA: ssh-keygen -t ed25519",
    { cause },
  );
}

function wrongPassphrase(cause: unknown): SshKeyError {
  return new SshKeyError("the passphrase does not open the key", "try again", { cause });
}

function locked(): SshKeyError {
  return new SshKeyError(
    "the private key has a passphrase",
    "run it on a terminal, which asks for the passphrase, or let an agent hold the key: --agent",
    { isLocked: true },
  );
}
