/** Drafts of the network's events (docs/design/contracts/05-policy.md §5). */
import {
  type CredentialSubstitution,
  type HttpAws,
  type HttpBody,
  type HttpEvent,
  type HttpGit,
  type HttpGrpc,
  httpPathClass,
  traceIdOf,
} from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { encodingOf } from "../message/encoding.ts";
import { eventHeaders, eventValue, type Header, headerValue } from "../message/header.ts";
import { encodeByteText, flatten } from "../message/bytes.ts";
import type { ModelCall } from "../interface/mod.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { GitExchange } from "./git.ts";
import { isCompressed, isGrpc } from "./grpc.ts";
import type { CallMessages } from "./grpc_message.ts";
import { type CapturedHead, formatAuthority, type IncomingRequest, type Requester } from "./request.ts";
import { SbxError } from "../../base/error/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import { isMethod, splitTarget } from "../message/head.ts";
import { charsetOf, recordBody } from "../message/text.ts";

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
  aws?: HttpAws;
  grpc?: HttpGrpc;
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
  /** why the operation of a request to Amazon is unknown */
  awsFault?: string;
  /** reader of the messages of a call of gRPC, where rules read them */
  messages?: CallMessages;
}

export const NO_HTTP_BODY: HttpBody = { state: "missing", truncated: false };

/** Response of a relayed connection: its bytes are counted, and not kept. @param address of the server */
export function relayedResponse(
  bytes: number,
  address: string | undefined,
): NonNullable<HttpEvent["response"]> {
  return {
    status: 200,
    ...(address !== undefined && { address }),
    bytes,
    headers: {},
    body: { ...NO_HTTP_BODY, size: bytes, truncated: bytes > 0 },
  };
}

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
 * Path of a request as its client wrote it, for the event. A path that held a secret is not repeated: another
 * spelling could hide the secret from `scrub`.
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
  if (forRules && isGrpc(headers) && isCompressed(first)) {
    return Promise.resolve({ size: rest.length ?? first.length, state: "binary", truncated: !complete });
  }
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
  const { method, scheme, host, port, target, rawPath, headers, imitated, bytes, body, git, aws, grpc } =
    request;
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
        ...(aws && { aws }),
        body,
        bytes,
        ...(git && { git }),
        ...(grpc && { grpc }),
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

/**
 * Drafts the event of a substitution by the broker.
 * @param event_id event of its request, once that exists
 */
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

// Applies the rewrites of rules to a request.

type HttpRequest = HttpEvent["request"];

/**
 * Rewrites a head as rules changed its event.
 *
 * @param before the request of the event before the rules
 * @param after the request of the event after the rules
 * @throws {SbxError} `policy.rewrite.invalid` for a result that cannot be sent
 */
export function rewriteHead(head: CapturedHead, before: HttpRequest, after: HttpRequest): CapturedHead {
  const { method, path, query } = after;
  const isSameTarget = path === before.path && query === before.query;
  const target = isSameTarget ? head.target : encodeByteText(path + (query === "" ? "" : `?${query}`));
  if (
    !isMethod(method) || !/^(\/|\*$)[\x21-\x7e\x80-\xff]*$/.test(target) ||
    !isSameTarget && !isCanonical(path)
  ) {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote the request to one that cannot be sent", {
      hint:
        "method and path have no spaces; a path begins with / and has no dot segments or needless escapes",
    });
  }
  const headers = after.headers === before.headers
    ? head.headers
    : rewriteHeaders(head.headers, after.headers);
  return { method, target, headers };
}

/** Fields of an event that are written by the connection to the upstream. */
const CONNECTION_FIELDS = new Set(["host", "upgrade"]);

/** Writes the path in its one spelling, which is sent and which later readers get. */
function isCanonical(path: string): boolean {
  return path === "*" || canonicalPath(path).path === path;
}

/** Unchanged values are sent as they came: the event may hold them redacted or decoded. */
function rewriteHeaders(headers: readonly Header[], after: Record<string, string[]>): Header[] {
  const before = Map.groupBy(headers, ([name]) => name);
  return Object.entries(after).filter(([name]) => !CONNECTION_FIELDS.has(name)).flatMap(([name, values]) =>
    values.map((value, at): Header => {
      const original = before.get(name)?.[at]?.[1];
      if (original !== undefined && eventValue(name, original) === value) return [name, original];
      if (!/^[\t\x20-\x7e\x80-\uffff]*$/.test(value)) {
        throw new SbxError(
          "policy.rewrite.invalid",
          `a rule rewrote the header ${name} to a value that cannot be sent`,
          { hint: "header values have no control characters" },
        );
      }
      return [name, encodeByteText(value)];
    })
  );
}

/** Upgrade to ask the upstream for; `undefined` when the rules removed it. */
export function rewriteUpgrade(upgrade: string | undefined, after: HttpRequest): string | undefined {
  return after.headers["upgrade"]?.[0] === upgrade ? upgrade : undefined;
}

/**
 * Rewrites a body as rules changed its event; `undefined` when they left it unchanged.
 *
 * @throws {SbxError} `policy.rewrite.invalid` when the event did not hold the whole body
 */
export function rewriteBody(body: BufferedBody, before: HttpBody, after: HttpBody): Uint8Array | undefined {
  const { text } = after;
  if (text === before.text || text === undefined) return undefined;
  if (!body.complete || before.truncated) {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote a body that is too long to be rewritten", {
      hint: "let the rule match http.request.body.truncated == false",
    });
  }
  if (before.state !== "text" || charsetOf(before.content_type ?? "") !== "utf-8") {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote a body that is not UTF-8 text", {
      hint: 'let the rule match http.request.body.state == "text"',
    });
  }
  return new TextEncoder().encode(text);
}
