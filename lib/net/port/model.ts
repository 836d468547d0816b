/** What the network asks of those who read model calls; lib/model implements it. */
import type { Event, ModelEvent } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { Header } from "../message/header.ts";

/** A request's head, with refs in place of secrets. */
export interface ModelRequest {
  method: string;
  scheme: string;
  host: string;
  port: number;
  path: string;
  query: string;
  headers: Header[];
}

/** Finds model calls among requests. */
export interface Models {
  /** A reader for what may be a model call, by its head; `undefined` when it cannot be one. */
  match(request: ModelRequest): ModelCall | undefined;
}

/**
 * Reads one call from the bytes that pass. Whatever it throws ends its reading and nothing else: the stream goes on.
 * The upstream is asked for an answer without encoding, so that the bytes are what they say.
 */
export interface ModelCall {
  /** most bytes of the request's body that it wants before the request is decided on */
  readonly bodyMax: number;
  /**
   * What the gate decides on before the request goes out; `undefined` when it is no model call after all.
   *
   * @param body the request's body without encoding, as far as it was read; with refs and secrets as the guest sent it:
   * what becomes part of the draft goes through `scrub` first
   * @param complete whether that is all of it
   */
  request(body: Uint8Array, complete: boolean, scrub: (text: string) => string): Draft | undefined;
  /** The body that a rewritten event asks for; `undefined` when none of its fields that are part of the body changed. */
  rewrite?(event: Event, body: Uint8Array): Uint8Array | undefined;
  /** The response's head. */
  head(status: number, headers: Header[]): void;
  /** The next bytes of the response; they are overwritten after the call. */
  chunk(bytes: Uint8Array): void;
  /** What the response was, as far as it came. @param error what broke it off */
  end(error?: string): ModelEvent["response"] | undefined;
}
