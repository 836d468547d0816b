import type { Answer } from "./answer.ts";
import type { Json } from "./json.ts";

/** What a request says of its call. */
export interface RequestFacts {
  model: string;
  stream: boolean;
  messages_count: number;
  tools_count: number;
}

/** One wire format of model calls. Its two functions read JSON that anyone may have written. */
export interface Api {
  /** the value of `api_family` */
  family: string;
  /** the value of `operation`, when the path does not say */
  operation: string;
  /** the paths on which it is spoken */
  path: RegExp;
  /** keys of a request's body, one of which every call has */
  needs: readonly string[];
  /** whether a request's body can be nothing else; for hosts and paths that nobody knows */
  looksLike(body: Json): boolean;
  /** @param match of {@linkcode path}, or null */
  request(body: Json, match: RegExpExecArray | null): RequestFacts;
  /** Takes the next JSON value of a response: all of it, an event of a stream, or a line. */
  fold(value: Json, answer: Answer): void;
  /** whether the body is where the model is named, and not the path */
  modelInBody: boolean;
}
