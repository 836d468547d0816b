/** The host key that guests trust: one for this machine, which follows from the key of its CA. */
import { Buffer } from "node:buffer";
import { joinBytes } from "../../base/bytes/mod.ts";
import type { Ca } from "../ca/mod.ts";

export interface HostKey {
  /** OpenSSH's format */
  privateKey: string;
  /** as in `known_hosts`, without the host */
  publicKey: string;
}

const TYPE = "ssh-ed25519";
const LABEL = "sbx.ssh.host-key.v1";
/** PKCS #8 of an Ed25519 key, before its seed. */
const PKCS8_HEAD = Uint8Array.fromHex("302e020100300506032b657004220420");
/** Length of a block of an unencrypted key, in `bytes`. */
const BLOCK = 8;

/** A resumed or forked guest trusts the same key as before, so it is of no one VM. */
export async function guestHostKey(ca: Ca): Promise<HostKey> {
  const seed = await ca.derive(LABEL);
  const pkcs8 = Buffer.from(joinBytes<ArrayBufferLike>([PKCS8_HEAD, seed]));
  // Loaded late, as most VMs never make an SSH connection.
  const { createPrivateKey, createPublicKey } = await import("node:crypto");
  const { x } = createPublicKey(createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }))
    .export({ format: "jwk" });
  const point = Uint8Array.fromBase64(x!, { alphabet: "base64url" });
  const blob = joinBytes([text(TYPE), text(point)]);
  return { privateKey: privateKeyFile(seed, point, blob), publicKey: `${TYPE} ${blob.toBase64()}` };
}

/** PROTOCOL.key of OpenSSH. */
function privateKeyFile(seed: Uint8Array, point: Uint8Array, blob: Uint8Array): string {
  const check = new Uint8Array(8);
  const inner = joinBytes<ArrayBufferLike>([
    check,
    text(TYPE),
    text(point),
    text(joinBytes<ArrayBufferLike>([seed, point])),
    text(""),
  ]);
  const padding = Uint8Array.from({ length: -inner.length & (BLOCK - 1) }, (_, at) => at + 1);
  const whole = joinBytes<ArrayBufferLike>([
    new TextEncoder().encode("openssh-key-v1\0"),
    text("none"),
    text("none"),
    text(""),
    Uint8Array.of(0, 0, 0, 1),
    text(blob),
    text(joinBytes<ArrayBufferLike>([inner, padding])),
  ]);
  const lines = whole.toBase64().replace(/.{70}/g, "$&\n");
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}\n-----END OPENSSH PRIVATE KEY-----\n`;
}

/** A string behind its length. */
function text(value: string | Uint8Array): Uint8Array {
  const bytes = typeof value === "string" ? new TextEncoder().encode(value) : value;
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, bytes.length);
  return joinBytes<ArrayBufferLike>([length, bytes]);
}
