/** Events of HTTP and of what is no HTTP (contracts.md §5). */
import {
  type CredentialSubstitution,
  type EventProcess,
  type HttpBody,
  httpPathClass,
} from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import { authorityText } from "./authority.ts";
import { eventHeaders, type Header } from "../message/header.ts";
import { flat } from "../message/latin1.ts";

/** Who makes a request. */
export interface Requester {
  actor: "vm" | "host";
  process?: EventProcess;
}

/** What an event tells of a request; headers and target hold refs, not secrets. */
export interface Described {
  method: string;
  scheme: string;
  host: string;
  port: number;
  /** path and query */
  target: string;
  headers: readonly Header[];
  /** of head and body, as far as it is known */
  bytes: number;
  body: HttpBody;
}

export const NO_HTTP_BODY: HttpBody = { state: "missing", truncated: false };

export function httpDraft(by: Requester, request: Described): Draft {
  const { method, scheme, host, port, target, headers, bytes, body } = request;
  const cut = target.indexOf("?");
  const path = cut < 0 ? target : target.slice(0, cut);
  return {
    common: commonOf(by, "http.request"),
    http: {
      // In the order of canonical JSON, and flat: see `flat`.
      request: {
        body,
        bytes,
        headers: eventHeaders(headers),
        host,
        method,
        path: flat(path),
        path_class: httpPathClass(path),
        port,
        query: cut < 0 ? "" : flat(target.slice(cut + 1)),
        scheme,
        url: [scheme, "://", authorityText(scheme, host, port), target].join(""),
      },
    },
  };
}

/** A connection of which only its ends are known. */
export function connectDraft(by: Requester, scheme: string, host: string, port: number): Draft {
  return httpDraft(by, {
    method: "CONNECT",
    scheme,
    host,
    port,
    target: "",
    headers: [],
    bytes: 0,
    body: NO_HTTP_BODY,
  });
}

/** What the broker did. @param event_id the event that it did it for, where that is known already */
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

function commonOf({ actor, process }: Requester, event_type: "http.request" | "credential.substitution") {
  return { event_type, source_engine: "network" as const, actor, ...(process && { process }) };
}
