import type { Json } from "./json.ts";
import type { ResponseFacts } from "./response_facts.ts";

/** Recorded facts of a request. */
export interface RequestFacts {
  model: string;
  stream: boolean;
  messages_count: number;
  tools_count: number;
}

/** One wire format of model calls. Its functions read untrusted JSON. */
export interface Api {
  /** the value of `api_family` */
  family: string;
  /** the value of `operation`, unless the path contains it */
  operation: string;
  /** request paths of this API */
  path: RegExp;
  /** keys of the request body; every call has at least one of them */
  needs: readonly string[];
  /** Checks that a request body is unmistakably of this API, for unknown hosts and paths. */
  looksLike(body: Json): boolean;
  /** Reads a request. @param match match of {@linkcode path}, or null */
  readRequest(body: Json, match: RegExpExecArray | null): RequestFacts;
  /** Reads the next JSON value of a response: the whole body, a stream event, or a line. */
  readResponse(value: Json, facts: ResponseFacts): void;
  /** true if the body names the model, false if the path does */
  modelInBody: boolean;
}
