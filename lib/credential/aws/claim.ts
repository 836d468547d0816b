/** The signature that a request carries, in its head or in its query. */
import type { Header } from "../../network/interface/mod.ts";
import { ASYMMETRIC, isAsymmetricSignature, isRegionSet, REGION_SET } from "./asymmetric.ts";

/** A signature of version 4 or 4A, as a request has it. */
export interface Claim {
  /** `presigned`: in the query */
  place: "header" | "presigned";
  algorithm: string;
  id: string;
  /** `yyyymmdd` */
  day: string;
  /** of version 4A: the set of them, as it was sent */
  region: string;
  service: string;
  signedHeaders: readonly string[];
  signature: string;
  /** `yyyymmddThhmmssZ` */
  date: string;
  /** seconds, of a presigned request */
  expires?: number;
}

/** A signature, the reason why it cannot be read, or neither. */
export type ClaimReading =
  | { claim: Claim; fault?: undefined }
  | { claim?: undefined; id?: string; fault: string }
  | undefined;

const SYMMETRIC = "AWS4-HMAC-SHA256";
const SCHEME = /^\s*(AWS4-[A-Z0-9-]+)\s+(.*)$/;
const CREDENTIAL = /^([^/\s]{1,128})\/(\d{8})\/([a-z0-9-]{1,64})\/([A-Za-z0-9-]{1,64})\/aws4_request$/;
/** Of version 4A, without a region. */
const REGIONLESS = /^([^/\s]{1,128})\/(\d{8})\/([A-Za-z0-9-]{1,64})\/aws4_request$/;
const DATE = /^\d{8}T\d{6}Z$/;
const SIGNATURE = /^[0-9a-f]{64}$/;
/** Names of header fields that are signed. */
const NAMES = /^[!#$%&'*+.^_`|~0-9a-z-]+(?:;[!#$%&'*+.^_`|~0-9a-z-]+)*$/;
/** Parameters of a query that make it a signature. */
const PARAMETER = /^x-amz-(?:algorithm|credential|signature)$/i;
/** Most fields that a signature covers. */
const NAMES_MAX = 100;
/** Longest life of a presigned request, in seconds: a week. */
const EXPIRES_MAX = 604_800;

/** True for a request that claims to be signed, in any version. */
export function claimsAws(query: string, headers: readonly Header[]): boolean {
  return headers.some(([name, value]) => name === "authorization" && /^\s*AWS4-/.test(value)) ||
    hasParameter(query, PARAMETER);
}

/** True for a request that is signed as before version 4. */
export function claimsOldAws(query: string, headers: readonly Header[]): boolean {
  return headers.some(([name, value]) => name === "authorization" && /^\s*AWS3?(?:-HTTPS)?\s/.test(value)) ||
    hasParameter(query, /^AWSAccessKeyId$/);
}

/** Names count as they are decoded: servers read them so. */
function hasParameter(query: string, name: RegExp): boolean {
  return query !== "" && query.split("&").some((pair) => name.test(decode(pair.split("=", 1)[0])));
}

/** Reads the signature of a request; `undefined` for a request without one. */
export function signatureOf(query: string, headers: readonly Header[]): ClaimReading {
  if (!claimsAws(query, headers)) return undefined;
  const fields = headers.filter(([name]) => name === "authorization");
  const parameters = parametersOf(query);
  const isPresigned = [...parameters.keys()].some((name) => PARAMETER.test(name));
  if (fields.length + Number(isPresigned) > 1) {
    return { fault: "has two signatures", ...idOf(fields, parameters) };
  }
  return isPresigned ? presigned(parameters) : inHeader(fields[0][1], headers);
}

/** An identifier of a key in a signature that is not read further. */
function idOf(
  fields: readonly Header[],
  parameters: ReadonlyMap<string, readonly string[]>,
): { id?: string } {
  const texts = [...fields.map(([, value]) => value), ...[...parameters.values()].flat()];
  const id = texts.map((text) => /\b(AKIA[A-Z2-7]{16})\b/.exec(text)?.[1]).find((each) => each !== undefined);
  return id === undefined ? {} : { id };
}

function inHeader(value: string, headers: readonly Header[]): ClaimReading {
  const [, algorithm, rest] = SCHEME.exec(value) ?? [];
  const parts = new Map<string, string[]>();
  for (const part of (rest ?? "").split(",")) {
    const at = part.indexOf("=");
    const name = part.slice(0, at).trim();
    parts.set(name, [...(parts.get(name) ?? []), part.slice(at + 1).trim()]);
  }
  const field = (wanted: string) => {
    const values = headers.filter(([name]) => name === wanted);
    return values.length === 1 ? values[0][1].trim() : undefined;
  };
  return read("header", {
    algorithm,
    credential: single(parts, "Credential"),
    names: single(parts, "SignedHeaders"),
    signature: single(parts, "Signature"),
    date: field("x-amz-date"),
    regions: field(REGION_SET),
  }, idOf([["authorization", value]], new Map()));
}

function presigned(parameters: ReadonlyMap<string, readonly string[]>): ClaimReading {
  const reading = read("presigned", {
    algorithm: single(parameters, "X-Amz-Algorithm"),
    credential: single(parameters, "X-Amz-Credential"),
    names: single(parameters, "X-Amz-SignedHeaders"),
    signature: single(parameters, "X-Amz-Signature"),
    date: single(parameters, "X-Amz-Date"),
    regions: single(parameters, "X-Amz-Region-Set"),
  }, idOf([], parameters));
  if (!reading?.claim) return reading;
  const expires = single(parameters, "X-Amz-Expires") ?? "";
  if (!/^\d{1,6}$/.test(expires) || Number(expires) < 1 || Number(expires) > EXPIRES_MAX) {
    return { fault: "does not end within a week", id: reading.claim.id };
  }
  return { claim: { ...reading.claim, expires: Number(expires) } };
}

interface ClaimTexts {
  algorithm?: string;
  credential?: string;
  names?: string;
  signature?: string;
  date?: string;
  regions?: string;
}

function read(
  place: Claim["place"],
  { algorithm, credential = "", names = "", signature = "", date = "", regions = "" }: ClaimTexts,
  found: { id?: string },
): ClaimReading {
  const isAsymmetric = algorithm === ASYMMETRIC;
  const [, id, day, ...scope] = (isAsymmetric ? REGIONLESS : CREDENTIAL).exec(credential) ?? [];
  const [region, service] = isAsymmetric ? [regions, ...scope] : scope;
  const fault = (text: string): ClaimReading => ({ fault: text, ...found, ...(id !== undefined && { id }) });
  if (algorithm !== SYMMETRIC && !isAsymmetric) {
    return fault(`is of an algorithm that sbx does not sign with: only ${SYMMETRIC} and ${ASYMMETRIC}`);
  }
  if (id === undefined) return fault("has no valid Credential");
  const signedHeaders = names.split(";");
  const isSorted = signedHeaders.every((name, at) => at === 0 || signedHeaders[at - 1] < name);
  if (
    !NAMES.test(names) || !isSorted || signedHeaders.length > NAMES_MAX || !signedHeaders.includes("host")
  ) {
    return fault("has no valid SignedHeaders, with host among them");
  }
  if (isAsymmetric && !isRegionSet(region)) return fault("has no valid X-Amz-Region-Set");
  if (!(isAsymmetric ? isAsymmetricSignature(signature) : SIGNATURE.test(signature))) {
    return fault("has no valid Signature");
  }
  if (!DATE.test(date) || !date.startsWith(day)) {
    return fault("has no X-Amz-Date of the day of its Credential");
  }
  return { claim: { place, algorithm, id, day, region, service, signedHeaders, signature, date } };
}

/** Parameters of a query, decoded, by name. */
function parametersOf(query: string): Map<string, string[]> {
  const all = new Map<string, string[]>();
  for (const pair of query === "" ? [] : query.split("&")) {
    const at = pair.indexOf("=");
    const [name, value] = (at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)]).map(decode);
    all.set(name, [...(all.get(name) ?? []), value]);
  }
  return all;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function single(values: ReadonlyMap<string, readonly string[]>, name: string): string | undefined {
  const found = values.get(name);
  // One in another case would be read by some servers and not by others.
  const others = [...values.keys()].some((key) => key !== name && key.toLowerCase() === name.toLowerCase());
  return found?.length === 1 && !others ? found[0] : undefined;
}
