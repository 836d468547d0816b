/** What a reader of model calls is asked, and what it answers; `lib/net` has the same shapes. */
import type { Event, ModelEvent } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";

/** A header field; its name is lower case. */
export type Header = [name: string, value: string];

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

export type ModelResponse = NonNullable<ModelEvent["response"]>;

/** Reads one call from the bytes that pass, without ever holding them up or throwing because of them. */
export interface ModelCall {
  readonly bodyMax: number;
  request(body: Uint8Array, complete: boolean, scrub: (text: string) => string): Draft | undefined;
  rewrite(event: Event, body: Uint8Array): Uint8Array | undefined;
  head(status: number, headers: Header[]): void;
  chunk(bytes: Uint8Array): void;
  end(error?: string): ModelResponse | undefined;
}
