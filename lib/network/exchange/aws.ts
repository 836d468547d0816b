/**
 * Requests to Amazon's APIs: what rules know of them, and their signatures
 * (docs/design/contracts/05-policy.md §5, "AWS").
 */
import { awsEndpoint, type AwsReading, readAws } from "../aws/mod.ts";
import type { Decision, Draft, Gate } from "../../policy/mod.ts";
import type { Destination, Injected, RequestSignature, SignedRequest } from "../interface/mod.ts";
import { type BodySource, WholeBody } from "../message/body.ts";
import { NO_BYTES } from "../message/bytes.ts";
import { acceptWhole } from "../message/header.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { CapturedHead, IncomingRequest } from "./request.ts";

/** Part of events that holds a request's operation at Amazon, as `Gate.reads` takes it. */
const REQUEST_AWS = "http.request.aws";

/**
 * Reads the operation of a request to Amazon, or to a store with its signatures;
 * `undefined` for any other request.
 */
export function awsOf(
  { host }: IncomingRequest,
  { method, target, headers }: CapturedHead,
  { first, complete }: BufferedBody,
  signature: RequestSignature | undefined,
): AwsReading | undefined {
  const scope = signature?.scope;
  const endpoint = awsEndpoint(host) ?? (scope && { services: [scope.service], region: scope.region });
  return endpoint && readAws(endpoint, { method, target, headers, body: first, isWhole: complete }, scope);
}

/** A request as its client signed it. */
export function signedRequestOf(
  { scheme, host, port, method, target, headers, body: { length } }: IncomingRequest,
): SignedRequest {
  return { scheme, host, port, method, target, headers, ...(length !== undefined && { length }) };
}

/** Refuses a request to Amazon whose operation is unknown where rules read it. */
export function awsRefusal(gate: Gate, draft: Draft, fault: string | undefined): Decision | undefined {
  if (fault === undefined || !gate.reads(REQUEST_AWS)) return undefined;
  return gate.refuse(draft, {
    id: "guard-aws",
    reason: `a rule reads requests to Amazon's APIs, and the operation of this one is not known: ${fault}`,
    remedy: "send it as Amazon's own clients do",
  });
}

/** Signs a request as it is sent. @param isWhole answers from there are asked for whole */
export function signAnew(
  signature: RequestSignature,
  to: Destination,
  { method, target, headers }: CapturedHead,
  isWhole: boolean,
  body: BodySource | undefined,
): Injected {
  const bytes = body instanceof WholeBody ? body.bytes : body?.length === 0 ? NO_BYTES : undefined;
  return signature.sign({ ...to, method, target, headers: isWhole ? acceptWhole(headers) : headers }, bytes);
}
