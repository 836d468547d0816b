/**
 * Bodies in the chunks of S3, signed by Amazon's own library: as clients send them, and as
 * the upstream has to receive them.
 */
import { createHash } from "node:crypto";
import { librarySigner } from "./aws.ts";

export const SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
export const SIGNED_TRAILER = `${SIGNED}-TRAILER`;
export const UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
export const CHECKSUM = "x-amz-checksum-crc32";
const sha256 = (data: Uint8Array | string) => createHash("sha256").update(data).digest("hex");
const EMPTY = sha256("");

/** A body in chunks and the head that announces it. */
export interface Upload {
  payload: string;
  pieces: readonly string[];
  trailers?: Record<string, string>;
  /** fields in place of the right ones; an empty one is left out */
  fields?: Record<string, string>;
  path?: string;
}

export interface SignedUpload {
  headers: Record<string, string>;
  /** of the request */
  seed: string;
  body: string;
}

/** Signs a request of S3 and its body, piece by piece. */
export async function signUpload(
  keys: { id: string; secret: string },
  host: string,
  { payload, pieces, trailers = {}, fields = {}, path = "/bucket/key" }: Upload,
  date = new Date(),
): Promise<SignedUpload> {
  const signer = librarySigner(keys, { service: "s3" });
  const names = Object.keys(trailers);
  const given = {
    host,
    "content-encoding": "aws-chunked",
    "x-amz-content-sha256": payload,
    "x-amz-decoded-content-length": `${pieces.join("").length}`,
    ...(names.length > 0 && { "x-amz-trailer": names.join(",") }),
    ...fields,
  };
  const request = {
    method: "PUT",
    protocol: "https:",
    hostname: host,
    path,
    query: {},
    headers: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "")),
  };
  const { headers } = await signer.sign(request as never, { signingDate: date }) as unknown as {
    headers: Record<string, string>;
  };
  const seed = /Signature=([0-9a-f]{64})/.exec(headers.authorization)![1];
  const scope = /Credential=[^/]+\/([^,]+)/.exec(headers.authorization)![1];
  let last = seed;
  const next = async (what: string, hashes: string[]) =>
    last = await signer.sign(
      [`AWS4-HMAC-SHA256-${what}`, headers["x-amz-date"], scope, last, ...hashes].join("\n"),
      { signingDate: date },
    );
  let body = "";
  for (const piece of [...pieces, ""]) {
    const signature = payload === UNSIGNED_TRAILER
      ? ""
      : `;chunk-signature=${await next("PAYLOAD", [EMPTY, sha256(piece)])}`;
    body += `${piece.length.toString(16)}${signature}\r\n${piece}${piece === "" ? "" : "\r\n"}`;
  }
  for (const [name, value] of Object.entries(trailers)) body += `${name}:${value}\r\n`;
  if (payload === SIGNED_TRAILER) {
    const lines = Object.entries(trailers).map(([name, value]) => `${name}:${value}\n`).join("");
    body += `x-amz-trailer-signature:${await next("TRAILER", [sha256(lines)])}\r\n`;
  }
  return { headers, seed, body: `${body}\r\n` };
}
