/**
 * Credential port: the network asks it to keep secrets on the host (docs/design/contracts/09-credentials.md
 * §9). Implemented by lib/credential.
 */
import { SbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution } from "../../event/mod.ts";
import type { Header } from "../message/header.ts";

/** Destination of a request. */
export interface Destination {
  /** `http` or `https` */
  scheme: string;
  /** lower case, without port */
  host: string;
  port: number;
}

/** Header fields after substitutions. */
export interface Substituted {
  headers: Header[];
  substitutions: CredentialSubstitution[];
}

/** Header fields with secrets in them: only the upstream may see them. */
export interface Injected extends Substituted {
  /** aborts when an injected credential is revoked: the exchange has to end */
  released?: AbortSignal;
}

/** A body that the broker may change. */
export interface BodyPlace extends Destination {
  /** `request`: on its way to the upstream; `response`: on its way to the guest */
  direction: "request" | "response";
  /** path of the request as a lenient server reads it, without its query */
  path: string;
  /** content type of the request; that of a response is unknown when the filter is made */
  content_type?: string;
}

/**
 * Changes one stream of bytes: a body, or the messages of a WebSocket. Holds bytes back while they may be part of a
 * secret or a ref. Its search terms are fetched with each chunk, so that a secret first used while the stream
 * is open is found too.
 */
export interface BodyFilter {
  /** Returns the bytes that may be sent so far. @throws {SbxError} `credential.denied`: nothing more may be sent */
  push(chunk: Uint8Array): Uint8Array;
  /** Returns the bytes held back, at the end of the body. Another message may follow. @throws {SbxError} `credential.denied` */
  end(): Uint8Array;
  /** substitutions so far; complete after `end` */
  readonly substitutions: readonly CredentialSubstitution[];
  /** its bytes are searched now: they have to be whole and without an encoding */
  readonly searching: boolean;
  /** replacements have the length of the original */
  readonly keepsLength: boolean;
  /** as in {@linkcode Injected} */
  readonly released?: AbortSignal;
}

/** A direction of a WebSocket. */
export interface MessagePlace extends Destination {
  /** `request`: on its way to the upstream; `response`: on its way to the guest */
  direction: "request" | "response";
}

/** Changes the messages of one direction of a WebSocket. Finds secrets that are cut into frames or messages, too. */
export interface MessageFilter {
  /**
   * Returns the bytes that may be sent so far; nothing is held back beyond the end of a message.
   *
   * @param isLast true for the end of a message
   * @throws {SbxError} `credential.denied`: nothing more may be sent
   */
  push(piece: Uint8Array, isLast: boolean): Uint8Array;
  /** substitutions so far */
  readonly substitutions: readonly CredentialSubstitution[];
}

/**
 * Exchanges secrets for refs and back. Header names are lower case; the path and query of a request come as a header
 * field named `:path`, so that secrets and refs in a query are found too.
 */
export interface CredentialPort {
  /** Replaces the secrets that a guest sent with refs. A field whose name holds a secret is dropped. */
  capture(host: string, headers: Header[]): Substituted;
  /**
   * Replaces refs with secrets, for hosts that the credential's provider owns.
   *
   * @throws {SbxError} `credential.denied`, best as {@linkcode CredentialDenied}: an unknown ref, or one not allowed there
   */
  inject(to: Destination, headers: Header[]): Injected;
  /** Drops the trailers of a request that hold a ref or a secret: they come too late to refuse the request. */
  trailers(to: Destination, trailers: readonly Header[]): Substituted;
  /** True when answers from there are or may be searched: they are asked for whole and without an encoding. */
  guards(place: Omit<BodyPlace, "direction">): boolean;
  /**
   * Replaces the secrets in head or trailers of an answer with refs, for hosts that ever got one. A field whose name holds
   * a secret is dropped.
   */
  answer(host: string, headers: Header[]): Substituted;
  /** Removes secrets from the fields of a message that is about to be recorded, names included. */
  scrubFields(headers: readonly Header[]): readonly Header[];
  /**
   * Removes secrets from text that is about to be recorded.
   *
   * @param isCut more text followed: the beginning of a secret at the end is removed too
   */
  scrub(text: string, isCut?: boolean): string;
  /** Filter for one body without content encoding; `undefined` when no part of it can matter. */
  bodies(place: BodyPlace): BodyFilter | undefined;
  /** Filter for the messages of one direction of a WebSocket. */
  messages(place: MessagePlace): MessageFilter;
}

/** A denied ref, with the substitutions to record. */
export class CredentialDenied extends SbxError {
  constructor(message: string, readonly substitutions: readonly CredentialSubstitution[], hint?: string) {
    super("credential.denied", message, { hint });
  }
}
