/** What the network asks of the credential broker (contracts.md §9); lib/credential implements it. */
import { SbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution } from "../../event/mod.ts";
import type { Header } from "../message/header.ts";

/** Where a request goes to. */
export interface Destination {
  /** `http` or `https` */
  scheme: string;
  /** lower case, without port */
  host: string;
  port: number;
}

/** Header fields in which something was put in place of something else. */
export interface Substituted {
  headers: Header[];
  substitutions: CredentialSubstitution[];
}

/** Header fields with secrets in them: they go to the upstream and nowhere else. */
export interface Injected extends Substituted {
  /** aborts when a credential that was put in is revoked: the exchange is broken off */
  released?: AbortSignal;
}

/** One body that the broker may want to change. */
export interface BodyPlace extends Destination {
  /** `request`: on its way to the upstream. `response`: on its way to the guest */
  direction: "request" | "response";
  /** of the request, without its query */
  path: string;
  /** of the request; a response's is not known when the broker is asked */
  content_type?: string;
}

/** Changes one body on its way. It holds bytes back for as long as they may be part of what it looks for. */
export interface BodyFilter {
  /** What of everything so far may go on. @throws {SbxError} `credential.denied`: nothing more is sent */
  push(chunk: Uint8Array): Uint8Array;
  /** What was held back, at the end of the body. @throws {SbxError} `credential.denied` */
  end(): Uint8Array;
  /** what was done so far; complete after `end` */
  readonly substitutions: readonly CredentialSubstitution[];
  /** as of {@linkcode Injected} */
  readonly released?: AbortSignal;
}

/**
 * Keeps secrets on the host. Header names are lower case; the request's path and query come as a header field of the
 * name `:path`, so that a secret or a ref in a query is seen like any other.
 */
export interface Broker {
  /** Puts refs in place of the secrets that a guest sent. */
  capture(host: string, headers: Header[]): Substituted;
  /**
   * Puts secrets in place of refs, for hosts that the credential's provider owns.
   *
   * @throws {SbxError} `credential.denied` for a ref that may not go there or that nobody knows; best as
   * {@linkcode CredentialDenied}
   */
  inject(to: Destination, headers: Header[]): Injected;
  /** Text without secrets, for what is recorded. */
  scrub(text: string): string;
  /** A filter for one body, `undefined` when nothing in it can be of interest. Bodies come to it without encoding. */
  bodies(place: BodyPlace): BodyFilter | undefined;
}

/** A ref that may not be used, with what the ledger is to hold of that. */
export class CredentialDenied extends SbxError {
  constructor(message: string, readonly substitutions: readonly CredentialSubstitution[], hint?: string) {
    super("credential.denied", message, { hint });
  }
}
