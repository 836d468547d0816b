/**
 * Model port: the network asks it to recognize and read model calls (docs/design/contracts/05-policy.md §5).
 * Implemented by lib/network/model.
 */
import type { Event, ModelEvent } from "../../event/mod.ts";
import type { Bill, CallUse, LaterUse } from "../../policy/budget/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { Header } from "../message/header.ts";

/** Head of a request, with refs in place of secrets. */
export interface ModelRequest {
  method: string;
  scheme: string;
  host: string;
  port: number;
  /** as a lenient server reads it */
  path: string;
  query: string;
  headers: Header[];
}

/** Puts refs in place of secrets. @param isCut more text followed: the beginning of a secret at the end is removed too */
export type Scrub = (text: string, isCut?: boolean) => string;

/** A request that is a model call, or may be one. */
export interface ModelDraft {
  draft: Draft;
  /** true when only an unreadable body makes it a model call: without rules on models it does not count */
  isGuess: boolean;
  /**
   * Finds why the call cannot be read whole and unambiguously, as a clause without secrets; `undefined` when it can.
   * Where rules read models, such a call is refused.
   */
  fault(): string | undefined;
  /** Sums up the most that the call can use. */
  bill(): Bill;
  /** Body that asks the provider to count the tokens of its stream; `undefined` where it does, or cannot be asked. */
  counted(): Uint8Array | undefined;
}

/**
 * Reads one model call from the bytes that pass. An error ends the reading, never the stream. The upstream is asked for
 * an unencoded response.
 */
export interface ModelCall {
  /** most `bytes` of the request's body that it needs before the decision */
  readonly bodyMax: number;
  /**
   * Drafts the event to decide on before the request is sent; `undefined` when it is not a model call.
   *
   * @param body the request's body without encoding, with refs and secrets as the guest sent them: text for the draft
   * goes through `scrub` first
   * @param missing why `body` is not the whole body, as a clause; absent when it is
   */
  request(
    body: Uint8Array,
    missing: string | undefined,
    scrub: Scrub,
  ): ModelDraft | undefined;
  /**
   * Body for a rewritten event; `undefined` when no field of the body changed.
   *
   * @throws {Error} for a change that cannot be sent
   */
  rewrite?(event: Event, body: Uint8Array): Uint8Array | undefined;
  /** Reads the head of the response. */
  head(status: number, headers: Header[]): void;
  /** Reads the next bytes of the response; they are overwritten after the call. */
  chunk(bytes: Uint8Array): void;
  /** The response read so far. @param error reason of an early end */
  end(error?: string): ModelEvent["response"] | undefined;
  /** What budgets need of the response; after {@linkcode ModelCall.end}. @param complete it came to its end */
  use(complete: boolean): CallUse;
}

/** Reads the usage of an answer that the client fetches later. */
export interface LaterAnswer {
  /** host and id, as in `CallUse.later` */
  readonly key: string;
  head(status: number, headers: Header[]): void;
  chunk(bytes: Uint8Array): void;
  /** @returns `undefined` for an answer that is not counted yet */
  end(): LaterUse | undefined;
}

/** A message of a guest on a WebSocket that carries model calls. */
export interface SocketRequest {
  call: ModelCall;
  /** the upstream may hear no end of a turn in it, and then makes no response */
  isTurn: boolean;
  /** a call decided on before, which this one takes the place of */
  replaces?: ModelCall;
}

/** A message of an upstream on a WebSocket that carries model calls. */
export interface SocketResponse {
  /** a call of the guest, or a new one: the upstream sent the response unrequested */
  call: ModelCall;
  /** status of an HTTP response that would say the same */
  status: number;
  /** the reader of the call needs this message */
  isRead: boolean;
  /** the response ends with this message */
  isEnd: boolean;
}

/** Reads the model calls of one WebSocket. */
export interface ModelSocket {
  /** longest message of a guest that is read, in `bytes`; a longer one ends the WebSocket */
  readonly requestMax: number;
  /** longest message of an upstream that is read, in `bytes`; a longer one passes unread */
  readonly responseMax: number;
  /**
   * Finds the call that a message of the guest makes; `undefined` for one that makes none. The message itself goes to
   * {@linkcode ModelCall.request}.
   *
   * @param text `undefined` for a binary message
   */
  request(text: string | undefined): SocketRequest | undefined;
  /** Forgets an unsent call. @returns the error message for the client, in the format of this API */
  refuse(call: ModelCall, code: string, message: string): string;
  /** Finds the call that a message of the upstream belongs to. */
  response(text: string): SocketResponse | undefined;
}

/** Recognizes model calls among requests. */
export interface ModelPort {
  /** Reader for a request that may be a model call, by its head; `undefined` for one that cannot be. */
  match(request: ModelRequest): ModelCall | undefined;
  /** Reader for the messages of an upgraded request; `undefined` if sbx cannot read them. */
  socket?(request: ModelRequest): ModelSocket | undefined;
  /** Reader for a request that fetches an answer made before; `undefined` for another request. */
  later?(request: ModelRequest): LaterAnswer | undefined;
}
