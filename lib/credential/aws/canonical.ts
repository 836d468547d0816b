/** Canonical requests and signing keys of AWS's signature version 4. */
import { createHash, createHmac } from "node:crypto";
import { Buffer } from "node:buffer";
import type { Header } from "../../network/interface/mod.ts";
import { ASYMMETRIC } from "./asymmetric.ts";
import type { Claim } from "./claim.ts";

/** Hash of no bytes. */
export const EMPTY_HASH = sha256(new Uint8Array());

/** A request as it is signed; texts have one character per byte. */
export interface SigningRequest {
  method: string;
  /** path and query, without a signature in it */
  target: string;
  /** with `host` */
  headers: readonly Header[];
  signedHeaders: readonly string[];
  /** last line of the canonical request */
  payload: string;
}

/** Service, region and day of a signature. */
export type Scope = Pick<Claim, "algorithm" | "day" | "region" | "service" | "date">;

export function sha256(bytes: Uint8Array | string): string {
  return createHash("sha256").update(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes).digest(
    "hex",
  );
}

/** @throws {URIError} for an escape that is no UTF-8 */
export function canonicalRequest(
  { method, target, headers, signedHeaders, payload }: SigningRequest,
  service: string,
): string {
  const mark = target.indexOf("?");
  const [path, query] = mark < 0 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)];
  const lines = signedHeaders.map((name) => `${name}:${valueOf(headers, name)}\n`).join("");
  return [method, canonicalUri(path, service), canonicalQuery(query), lines, signedHeaders.join(";"), payload]
    .join("\n");
}

/** Text of which a request's signature is. */
export function signedText(request: SigningRequest, scope: Scope): string {
  return [
    scope.algorithm,
    scope.date,
    scopeText(scope),
    sha256(canonicalRequest(request, scope.service)),
  ].join("\n");
}

export function signText(key: Uint8Array, text: string): string {
  return hmac(key, text).toString("hex");
}

/** A set of regions is a field of its own. */
export function scopeText({ algorithm, day, region, service }: Omit<Scope, "date">): string {
  return [day, ...(algorithm === ASYMMETRIC ? [] : [region]), service, "aws4_request"].join("/");
}

/** Key of a day, region and service. */
export function signingKey(secret: string, { day, region, service }: Scope): Uint8Array {
  return [day, region, service, "aws4_request"].reduce<Uint8Array>(
    (key, part) => hmac(key, part),
    Buffer.from(`AWS4${secret}`),
  );
}

function hmac(key: Uint8Array, text: string) {
  return createHmac("sha256", key).update(Buffer.from(text, "latin1")).digest();
}

/** Values of a field as one line: trimmed, spaces merged, joined by commas. */
function valueOf(headers: readonly Header[], name: string): string {
  return headers.filter(([each]) => each === name)
    .map(([, value]) => value.trim().replace(/ +/g, " ")).join(",");
}

/**
 * S3 signs the path as it is decoded and written again; other services sign the path
 * that was sent, escaped once more.
 */
function canonicalUri(path: string, service: string): string {
  const isObjectStore = service.startsWith("s3");
  return path.split("/").map((part) => encode(isObjectStore ? decodeBytes(part) : part)).join("/");
}

function canonicalQuery(query: string): string {
  if (query === "") return "";
  const pairs = query.split("&").filter((pair) => pair !== "").map((pair) => {
    const at = pair.indexOf("=");
    const [name, value] = at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
    return [encode(decodeBytes(name)), encode(decodeBytes(value))];
  });
  const order = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;
  return pairs.sort((a, b) => order(a[0], b[0]) || order(a[1], b[1])).map(([name, value]) =>
    `${name}=${value}`
  )
    .join("&");
}

/** Undoes escapes; one character per byte. */
function decodeBytes(text: string): string {
  return text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
}

/** Escapes bytes but letters, digits and `-._~`. */
function encode(text: string): string {
  return text.replace(
    /[^A-Za-z0-9._~-]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}
