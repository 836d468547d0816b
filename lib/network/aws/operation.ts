/** The operation of a request to one of Amazon's APIs, as the service reads it. */
import type { HttpAws } from "../../event/mod.ts";
import { Buffer } from "node:buffer";
import type { AwsEndpoint } from "./endpoint.ts";
import S3_JSON from "./s3.json" with { type: "json" };

/** A request, with refs in place of secrets. */
export interface AwsRequest {
  method: string;
  /** path and query */
  target: string;
  headers: readonly (readonly [name: string, value: string])[];
  /** beginning of the body */
  body: Uint8Array;
  /** `body` is the whole body */
  isWhole: boolean;
}

/** The event's field, and why the operation is not known, as a clause. */
export interface AwsReading {
  field: HttpAws;
  fault?: string;
}

/**
 * Operations of S3 by what they are on, method and the parameters that select
 * them. Of botocore's model of S3.
 */
const S3_OPERATIONS: Record<string, Record<string, string>> = S3_JSON.operations;
/** Operations that a header makes of others. */
const S3_COPIES: Record<string, string> = S3_JSON.copies;
const COPY_SOURCE = "x-amz-copy-source";
/** Bucket or access point of a source, and its key. */
const SOURCE = /^(?:\/?([^/:]+)\/|(?:\/?(arn:[^/]+(?:\/[^/]+)*?)\/object\/))([^/][^]*)$/;
/** Parameters that select no operation. */
const S3_PARAMETERS: ReadonlySet<string> = new Set(S3_JSON.parameters);
/** Services whose requests name the operation as `Action` of a form or query. */
const QUERY_SERVICES: ReadonlySet<string> = new Set([
  "autoscaling",
  "cloudformation",
  "cloudsearch",
  "ec2",
  "elasticache",
  "elasticbeanstalk",
  "elasticloadbalancing",
  "iam",
  "monitoring",
  "rds",
  "redshift",
  "sdb",
  "ses",
  "sns",
  "sqs",
  "sts",
]);
/** The ones of them that take JSON too, with the operation in `x-amz-target`. */
const JSON_SERVICES: ReadonlySet<string> = new Set(["monitoring", "sqs"]);
const NAME = /^[A-Za-z][A-Za-z0-9]{0,127}$/;

/** Reads a request to a service. @param scope service and region of its signature, where it has one */
export function readAws(
  endpoint: AwsEndpoint,
  request: AwsRequest,
  scope?: { service: string; region: string },
): AwsReading {
  const [usual] = endpoint.services;
  const service = scope && endpoint.services.includes(scope.service) ? scope.service : usual;
  const region = endpoint.region ?? scope?.region;
  const base: HttpAws = { service, ...(region !== undefined && { region }) };
  const isS3 = service === "s3" || service === "s3express";
  const { fault, name, ...rest } = isS3 ? readS3(endpoint, request) : readNamed(service, request);
  return {
    field: { ...(name !== undefined && { action: `${isS3 ? "s3" : service}:${name}` }), ...base, ...rest },
    ...(fault !== undefined && { fault }),
  };
}

interface Operation {
  name?: string;
  bucket?: string;
  key?: string;
  source_bucket?: string;
  source_key?: string;
  fault?: string;
}

/** An S3 path: the bucket, unless the host names it, and the key. */
function readS3(
  { bucket: hosted, isControl }: AwsEndpoint,
  { method, target, headers }: AwsRequest,
): Operation {
  if (isControl) return { fault: "the operations of S3's control API are not known" };
  const { path, query } = splitTarget(target);
  const segments = path.slice(1).split("/");
  const [bucket, rest] = hosted === undefined
    ? [decode(segments[0]), segments.slice(1).join("/")]
    : [hosted, segments.join("/")];
  const key = decode(rest);
  if (bucket === undefined || key === undefined) return { fault: "its path has an escape that is not UTF-8" };
  // Servers that undo escapes first, or join slashes, find another bucket there.
  if (bucket.includes("/") || bucket === "" && key !== "") return { fault: "its path names no plain bucket" };
  const place = { ...(bucket !== "" && { bucket }), ...(key !== "" && { key }) };
  const level = bucket === "" ? "service" : key === "" ? "bucket" : "object";
  const operations = S3_OPERATIONS[`${level} ${method}`];
  if (!operations) return { ...place, fault: `S3 has no known operation ${method} of a ${level}` };
  const selecting = new Set(Object.keys(operations).flatMap((keys) => keys === "" ? [] : keys.split(" ")));
  const found = new Set<string>();
  // Clients that presign may move fields into the query.
  const sources = headers.filter(([header]) => header === COPY_SOURCE).map(([, value]) => value.trim());
  for (const pair of query === "" ? [] : query.split("&")) {
    const name = decode(pair.split("=")[0].replaceAll("+", " "));
    if (name === undefined) return { ...place, fault: "its query has an escape that is not UTF-8" };
    if (name.toLowerCase() === COPY_SOURCE) {
      const value = decode(pair.slice(pair.indexOf("=") + 1));
      if (value === undefined) return { ...place, fault: "its query has an escape that is not UTF-8" };
      sources.push(value);
    }
    if (selecting.has(name)) found.add(name);
    else if (!S3_PARAMETERS.has(name) && !/^x-amz-/i.test(name)) {
      return { ...place, fault: "its query has a parameter that is not known of S3" };
    }
  }
  // Without the others, `id` selects nothing.
  const name = operations[[...found].sort().join(" ")];
  if (name === undefined) return { ...place, fault: "its parameters select more than one operation of S3" };
  if (sources.length === 0 || !Object.hasOwn(S3_COPIES, name)) return { ...place, name };
  const source = sources.length === 1 ? readSource(sources[0]) : undefined;
  if (!source) {
    return { ...place, name: S3_COPIES[name], fault: "its source of a copy has no plain bucket and key" };
  }
  return { ...place, ...source, name: S3_COPIES[name] };
}

/**
 * Reads `/bucket/key?versionId=…` or the ARN of an access point, escaped in part or
 * whole; `undefined` for others.
 */
function readSource(text: string): Pick<Operation, "source_bucket" | "source_key"> | undefined {
  const [escaped, version, ...more] = text.split("?");
  // A plus sign is a space to some servers.
  const plain = escaped.includes("+") ? undefined : decode(escaped);
  const isVersion = version === undefined || /^versionId=[^&]*$/.test(version);
  if (plain === undefined || !isVersion || more.length > 0) return undefined;
  const [, bucket, point, key] = SOURCE.exec(plain) ?? [];
  return key === undefined ? undefined : { source_bucket: bucket ?? point, source_key: key };
}

/** An operation that a header, a path or a form names. */
function readNamed(service: string, request: AwsRequest): Operation {
  const { method, target, headers, body, isWhole } = request;
  const isQueryService = QUERY_SERVICES.has(service);
  const { path, query } = splitTarget(target);
  const names = new Set<string>();
  for (const [header, value] of headers) {
    if (header === "x-amz-target") names.add(value.slice(value.lastIndexOf(".") + 1));
  }
  const rpc = /^\/service\/[^/]+\/operation\/([^/]+)$/.exec(path);
  if (rpc) names.add(rpc[1]);
  for (const [name, value] of new URLSearchParams(query)) if (name === "Action") names.add(value);
  if (isQueryService) {
    const isNamed = names.size > 0;
    // Such a service reads its form, whatever else names an operation that it does not read.
    if (!isWhole && !(isNamed && JSON_SERVICES.has(service))) {
      return { fault: "its form is too long to be read" };
    }
    for (const [name, value] of new URLSearchParams(latin1(body))) {
      if (name !== "Action") continue;
      if (isNamed) return { fault: "it names its operation twice" };
      names.add(value);
    }
  }
  if (names.size > 1) return { fault: "it names more than one operation" };
  const [name] = names;
  if (name === undefined) {
    return isQueryService ? { fault: "it names no operation" } : restOperation(service, method, path);
  }
  return NAME.test(name) ? { name } : { fault: "the name of its operation is invalid" };
}

/** Operations of Bedrock's runtime, by the last part of a path. */
const BEDROCK: Record<string, string> = {
  "invoke": "InvokeModel",
  "invoke-with-response-stream": "InvokeModelWithResponseStream",
  "converse": "Converse",
  "converse-stream": "ConverseStream",
};

/**
 * Services whose paths stand for operations: Bedrock's calls of models are known, the others have no action.
 */
function restOperation(service: string, method: string, path: string): Operation {
  const [, last = ""] = /^\/model\/[^/]+\/([a-z-]+)$/.exec(path) ?? [];
  const isCall = service === "bedrock" && method === "POST" && Object.hasOwn(BEDROCK, last);
  return isCall ? { name: BEDROCK[last] } : {};
}

function splitTarget(target: string): { path: string; query: string } {
  const mark = target.indexOf("?");
  return mark < 0
    ? { path: target, query: "" }
    : { path: target.slice(0, mark), query: target.slice(mark + 1) };
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
