/** SSH keys: public ones in a line, private ones as ssh-keygen writes them. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { SbxError } from "../base/error/mod.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { Reader, string } from "./wire.ts";

/** Curves of ECDSA: their names in keys and in JWK, and the bytes of a number. */
const CURVES: Readonly<Record<string, { crv: string; size: number; hash: string }>> = {
  nistp256: { crv: "P-256", size: 32, hash: "sha256" },
  nistp384: { crv: "P-384", size: 48, hash: "sha384" },
  nistp521: { crv: "P-521", size: 66, hash: "sha512" },
};
/** Fewest bits of an RSA key, as OpenSSH. */
const RSA_BITS_MIN = 2048;
const MAGIC = "openssh-key-v1\0";

/** A public key as SSH has it. */
export interface PublicKey {
  type: string;
  blob: Uint8Array<ArrayBuffer>;
  /** `TYPE BASE64`, without a comment */
  line: string;
  /** `SHA256:…`, as `ssh-keygen -l` */
  fingerprint: string;
  /** number of the hash that signatures have in ECDSA and RSA; null: the algorithm has its own */
  hash: string | null;
  /** bytes of one number of a signature by ECDSA */
  size?: number;
  key: KeyObject;
}

type Jwk = Record<string, string>;

const url = (bytes: Uint8Array) => bytes.toBase64({ alphabet: "base64url", omitPadding: true });

/** Reads the line of a public key; a comment behind it is left out. @throws {SbxError} `sign.key.invalid` */
export function readPublicKey(text: string): PublicKey {
  const [type, base64] = text.trim().split(/\s+/);
  try {
    const blob = Uint8Array.fromBase64(base64 ?? "");
    const found = publicKeyOf(blob);
    if (found.type === type) return found;
  } catch (error) {
    if (error instanceof SbxError) throw error;
  }
  throw keyError("it is no line of a public SSH key", "give the file that ends in .pub, or its line");
}

/** @throws {RangeError} it is cut; {@linkcode SbxError} `sign.key.invalid`: of a kind that is not used */
function publicKeyOf(blob: Uint8Array<ArrayBuffer>): PublicKey {
  const reader = new Reader(blob);
  const type = reader.text();
  const { jwk, hash, size } = publicJwk(type, reader);
  reader.requireEnd();
  return {
    type,
    blob,
    line: `${type} ${blob.toBase64()}`,
    fingerprint: `SHA256:${createHash("sha256").update(blob).digest("base64").replace(/=+$/, "")}`,
    hash,
    ...(size !== undefined && { size }),
    key: createPublicKey({ key: jwk, format: "jwk" }),
  };
}

function publicJwk(type: string, reader: Reader): { jwk: Jwk; hash: string | null; size?: number } {
  if (type === "ssh-ed25519") {
    const x = reader.string();
    if (x.length !== 32) throw new RangeError("a key of another length");
    return { jwk: { kty: "OKP", crv: "Ed25519", x: url(x) }, hash: null };
  }
  if (type === "ssh-rsa") {
    const [e, n] = [reader.mpint(), reader.mpint()];
    if (n.length * 8 < RSA_BITS_MIN) {
      throw keyError(
        `an RSA key of fewer than ${RSA_BITS_MIN} bits signs nothing`,
        "make another: ssh-keygen -t ed25519",
      );
    }
    return { jwk: { kty: "RSA", e: url(e), n: url(n) }, hash: "sha512" };
  }
  const name = /^ecdsa-sha2-(nistp\d{3})$/.exec(type)?.[1] ?? "";
  const curve = Object.hasOwn(CURVES, name) ? CURVES[name] : undefined;
  if (!curve) {
    throw keyError(
      "it is not of ed25519, ecdsa or rsa",
      "make one that is: ssh-keygen -t ed25519; keys on a security key are not used yet",
    );
  }
  const named = reader.text();
  const point = reader.string();
  if (named !== name || point.length !== 1 + 2 * curve.size || point[0] !== 4) {
    throw new RangeError("no point of its curve");
  }
  const [x, y] = [point.slice(1, 1 + curve.size), point.slice(1 + curve.size)];
  return { jwk: { kty: "EC", crv: curve.crv, x: url(x), y: url(y) }, hash: curve.hash, size: curve.size };
}

/** A private key: its sealed part, and its public facts. */
export interface PrivateKey {
  /** base64 of PKCS #8 */
  secret: string;
  public: PublicKey;
  comment: string;
}

/**
 * Reads a private key as OpenSSH writes it, without a passphrase.
 *
 * @throws {SbxError} `sign.key.invalid`
 */
export function readPrivateKey(text: string): PrivateKey {
  const base64 =
    /^-----BEGIN OPENSSH PRIVATE KEY-----\s([\sA-Za-z0-9+/=]+)-----END OPENSSH PRIVATE KEY-----\s*$/
      .exec(text.trim())?.[1];
  if (base64 === undefined) {
    throw keyError(
      "it is no private key in the format of OpenSSH",
      "ssh-keygen -p -f FILE writes a key of another format in this one; a key of gpg: --gpg KEYID",
    );
  }
  try {
    return openSshKey(Uint8Array.fromBase64(base64));
  } catch (error) {
    if (error instanceof SbxError) throw error;
    throw keyError("its content is damaged", "ssh-keygen -y -f FILE shows whether it can be used");
  }
}

function openSshKey(bytes: Uint8Array): PrivateKey {
  const reader = new Reader(bytes);
  if (new TextDecoder().decode(reader.take(MAGIC.length)) !== MAGIC) throw new RangeError("another format");
  const [cipher, kdf] = [reader.text(), reader.text()];
  reader.string();
  if (cipher !== "none" || kdf !== "none") {
    throw keyError(
      "it has a passphrase, which sbx does not keep",
      "load it into your ssh-agent and let that sign: ssh-add FILE && sbx credentials add signing --agent --public FILE.pub",
    );
  }
  if (reader.uint32() !== 1) throw new RangeError("several keys");
  const known = publicKeyOf(reader.string());
  const secret = new Reader(reader.string());
  reader.requireEnd();
  if (secret.uint32() !== secret.uint32()) throw new RangeError("numbers that differ");
  const type = secret.text();
  const jwk = privateJwk(type, secret);
  const comment = secret.text();
  const key = createPrivateKey({ key: jwk, format: "jwk" });
  const derived = createPublicKey({
    key: key.export({ type: "pkcs8", format: "pem" }) as string,
    format: "pem",
  });
  const spki = (each: KeyObject) => each.export({ type: "spki", format: "der" }).toString("base64");
  if (type !== known.type || spki(derived) !== spki(known.key)) throw new RangeError("another public key");
  return {
    secret: key.export({ type: "pkcs8", format: "der" }).toString("base64"),
    public: known,
    comment,
  };
}

function privateJwk(type: string, reader: Reader): Jwk {
  if (type === "ssh-ed25519") {
    const x = reader.string();
    const pair = reader.string();
    if (pair.length !== 64) throw new RangeError("a key of another length");
    return { kty: "OKP", crv: "Ed25519", x: url(x), d: url(pair.slice(0, 32)) };
  }
  if (type === "ssh-rsa") {
    const [n, e, d, qi, p, q] = Array.from({ length: 6 }, () => reader.mpint());
    const less = (prime: Uint8Array) => remainder(d, prime);
    return {
      kty: "RSA",
      n: url(n),
      e: url(e),
      d: url(d),
      p: url(p),
      q: url(q),
      dp: url(less(p)),
      dq: url(less(q)),
      qi: url(qi),
    };
  }
  const blob = joinBytes([string(type), string(reader.string()), string(reader.string())]);
  const inner = new Reader(blob);
  const { jwk, size } = publicJwk(inner.text(), inner);
  return { ...jwk, d: url(reader.mpint(size)) };
}

/** d mod (prime − 1). */
function remainder(d: Uint8Array, prime: Uint8Array): Uint8Array {
  const number = (bytes: Uint8Array) => BigInt(`0x${bytes.toHex()}`);
  const hex = (number(d) % (number(prime) - 1n)).toString(16);
  return Uint8Array.fromHex(hex.padStart(prime.length * 2, "0"));
}

export function keyError(problem: string, hint: string): SbxError {
  return new SbxError("sign.key.invalid", `the key cannot sign: ${problem}`, { hint });
}
