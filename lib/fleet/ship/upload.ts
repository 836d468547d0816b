/**
 * Head of an upload: gives the receiver the sender, length and hash of a body before its first byte:
 * `sbx-fleet-upload: <machine id> <BLAKE3 of the body> <signature, base64>`
 * (docs/design/contracts/12-ledger.md §12).
 */
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type PublicKey, type SigningKey, verifySignature } from "../../release/mod.ts";

export const UPLOAD_HEADER = "sbx-fleet-upload";
const HEADER = /^([0-9a-f]{64}) ([0-9a-f]{64}) ([A-Za-z0-9+/]{86}==)$/;

/** Properties of an announced upload. */
export interface Upload {
  machine_id: string;
  /** `bytes` */
  length: number;
  /** BLAKE3, 64 hex characters */
  hash: string;
}

/** Value of {@linkcode UPLOAD_HEADER} for a body. */
export async function signUpload(key: SigningKey, path: string, bytes: Uint8Array): Promise<string> {
  const upload = { machine_id: key.publicKey.id, length: bytes.length, hash: blake3(bytes) };
  const signature = await key.sign(signedText(path, upload));
  return `${upload.machine_id} ${upload.hash} ${signature.toBase64()}`;
}

/**
 * Reads the head of an upload.
 *
 * @param path last parts of the URL, "v1/segments"
 * @throws {SbxError} `fleet.upload.unsigned`: no signature, no length, or another's; `fleet.machine.unknown`
 */
export async function openUpload(
  headers: Headers,
  path: string,
  keyOf: (id: string) => Promise<PublicKey | undefined>,
): Promise<Upload> {
  const [, machine_id, hash, signature] = HEADER.exec(headers.get(UPLOAD_HEADER) ?? "") ?? [];
  const length = /^\d{1,15}$/.test(headers.get("content-length") ?? "")
    ? Number(headers.get("content-length"))
    : NaN;
  if (signature === undefined || Number.isNaN(length)) {
    throw unsigned("the head of the upload names no machine, hash, signature and length");
  }
  const key = await keyOf(machine_id);
  if (!key) {
    throw new SbxError("fleet.machine.unknown", `machine ${machine_id} is not enrolled`, {
      hint: "run sbx fleet enrol on it",
    });
  }
  const upload = { machine_id, length, hash };
  if (await verifySignature(key, Uint8Array.fromBase64(signature), signedText(path, upload))) return upload;
  throw unsigned(`the head of the upload is not signed by machine ${machine_id}`);
}

function signedText(path: string, { length, hash }: Upload): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`sbx.fleet-upload.v1\n${path}\n${length}\n${hash}\n`);
}

function unsigned(message: string): SbxError {
  return new SbxError("fleet.upload.unsigned", message, {
    hint: "update sbx on the machine, and let no proxy change its headers or the length of its bodies",
  });
}
