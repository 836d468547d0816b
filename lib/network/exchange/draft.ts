/** Drafts of the network's events (docs/design/contracts/05-policy.md §5). */
import {
  type CredentialSubstitution,
  type HttpBody,
  type HttpGit,
  httpPathClass,
  traceIdOf,
} from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { recordBody } from "../message/body_recorder.ts";
import { encodingOf } from "../message/encoding.ts";
import { eventHeaders, type Header, headerValue } from "../message/header.ts";
import { flatten } from "../message/latin1.ts";
import { splitTarget } from "../message/target.ts";
import type { ModelCall } from "../interface/mod.ts";
import { formatAuthority } from "./authority.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { GitExchange } from "./git.ts";
import type { CapturedHead, IncomingRequest, Requester } from "./request.ts";

/** Origin of what follows from an event: its substitutions and model calls belong to the same trace. */
export function requesterOf({ actor = "vm", process, trace_id }: Draft["common"]): Requester {
  return { actor, ...(process && { process }), ...(trace_id !== undefined && { trace_id }) };
}

/** A request as its event shows it; headers and target hold refs instead of secrets. */
export interface RequestDescription {
  method: string;
  scheme: string;
  host: string;
  port: number;
  /** path and query */
  target: string;
  /** path as the client wrote it, where that differs; without secrets */
  rawPath?: string;
  headers: readonly Header[];
  /** names of fields that dropped fields of the client imitate */
  imitated?: readonly string[];
  /** of head and body, as far as known */
  bytes: number;
  body: HttpBody;
  git?: HttpGit;
}

/** The captured head of a request, and the readers that it needs. */
export interface Captured {
  head: CapturedHead;
  /** of secrets in it; empty once they are recorded */
  substitutions: readonly CredentialSubstitution[];
  call: ModelCall | undefined;
  git: GitExchange | undefined;
}

/** The request of an exchange: the draft of its event, and its head and body to send. */
export interface DraftedRequest {
  draft: Draft;
  head: CapturedHead;
  body: BufferedBody;
  /** reader of a request that may be a model call */
  call: ModelCall | undefined;
  git: GitExchange | undefined;
}

export const NO_HTTP_BODY: HttpBody = { state: "missing", truncated: false };

/** Describes a request for its event. */
export function describeRequest(
  incoming: IncomingRequest,
  captured: CapturedHead,
  { first, rest }: BufferedBody,
  body: HttpBody,
  git: HttpGit | undefined,
  scrub: (text: string) => string,
): RequestDescription {
  const { scheme, host, port, headBytes, upgrade, imitated } = incoming;
  const { method, target, headers } = captured;
  const rawPath = rawPathOf(incoming, captured, scrub);
  return {
    method,
    scheme,
    host,
    port,
    target,
    ...(rawPath !== undefined && { rawPath }),
    headers: [
      ["host", formatAuthority(scheme, host, port)],
      // Rules decide on upgrades; the field itself belongs to the connection.
      ...(upgrade === undefined ? [] : [["upgrade", upgrade] satisfies Header]),
      ...headers,
    ],
    ...(imitated && { imitated }),
    bytes: headBytes + (rest.length ?? first.length),
    body,
    ...(git && { git }),
  };
}

/**
 * Path of a request as its client wrote it, for the event. A path that held a secret is not repeated: another spelling
 * could hide the secret from `scrub`.
 */
export function rawPathOf(
  { rawPath, target }: IncomingRequest,
  captured: Pick<CapturedHead, "target">,
  scrub: (text: string) => string,
): string | undefined {
  if (rawPath === undefined) return undefined;
  return captured.target === target ? scrub(rawPath) : "[redacted]";
}

/**
 * Describes the body of a request for its event; only for a body that is not empty.
 *
 * @param forRules rules read it
 */
export function describeBody(
  { headers }: CapturedHead,
  { first, complete, rest }: BufferedBody,
  forRules: boolean,
  scrub: (text: string, isCut?: boolean) => string,
): Promise<HttpBody> {
  const content_type = headerValue(headers, "content-type");
  const content_encoding = encodingOf(headers);
  return recordBody(
    first,
    rest.length ?? first.length,
    {
      ...(content_type !== undefined && { content_type }),
      ...(content_encoding !== undefined && { content_encoding }),
      forRules,
      scrub,
    },
    complete,
  );
}

/** Drafts the event of a request. */
export function httpDraft(by: Requester, request: RequestDescription): Draft {
  const { method, scheme, host, port, target, rawPath, headers, imitated, bytes, body, git } = request;
  const { path, query } = splitTarget(target);
  const recorded = eventHeaders(headers);
  const trace_id = traceIdOf(recorded);
  return {
    common: {
      ...commonOf(by, "http.request"),
      ...(trace_id !== undefined && { trace_id }),
      ...(imitated && { labels: { dropped_headers: imitated.join(" ") } }),
    },
    http: {
      // In the order of canonical JSON, and flat: see `flatten`.
      request: {
        body,
        bytes,
        ...(git && { git }),
        headers: recorded,
        host,
        method,
        path: flatten(path),
        path_class: httpPathClass(path),
        port,
        query: flatten(query),
        ...(rawPath !== undefined && { raw_path: flatten(rawPath) }),
        scheme,
        url: [scheme, "://", formatAuthority(scheme, host, port), target].join(""),
      },
    },
  };
}

/**
 * Drafts the event of a connection that is not inspected.
 *
 * @param protocol its client's protocol, as far as its first bytes show
 */
export function connectDraft(
  by: Requester,
  scheme: string,
  host: string,
  port: number,
  protocol?: string,
): Draft {
  const draft = httpDraft(by, {
    method: "CONNECT",
    scheme,
    host,
    port,
    target: "",
    headers: [],
    bytes: 0,
    body: NO_HTTP_BODY,
  });
  return protocol === undefined ? draft : { ...draft, common: { ...draft.common, labels: { protocol } } };
}

/** Drafts the event of a substitution by the broker. @param event_id event of its request, once that exists */
export function substitutionDraft(
  by: Requester,
  substitution: CredentialSubstitution,
  event_id?: string,
): Draft {
  return {
    common: { ...commonOf(by, "credential.substitution"), ...(event_id && { labels: { event_id } }) },
    credential: { substitution },
  };
}

function commonOf(by: Requester, event_type: "http.request" | "credential.substitution") {
  return { event_type, source_engine: "network" as const, ...by };
}
