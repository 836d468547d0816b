import { isObject } from "../base/object/mod.ts";
import { type Json, nameOf, objectOf } from "./json.ts";
import { JSON_DEPTH_MAX } from "./limit.ts";

/** Model that a WebSocket talks to, as its address, its calls and its session name it. */
export class SessionModel {
  #main?: string;
  /** models beside it: those of a transcription, for example */
  readonly #more = new Set<string>();

  /** @param query of the upgraded request */
  constructor(query: string) {
    const [main, ...more] = new URLSearchParams(query).getAll("model");
    this.#main = main;
    for (const name of more) this.#more.add(name);
  }

  /** Reads `session.update` of a client. */
  update(event: Json): void {
    const session = objectOf(event.session);
    this.#main = nameOf(session.model) ?? this.#main;
    for (const name of namesIn(session)) if (name !== this.#main) this.#more.add(name);
  }

  /** Reads `session.created` and `session.updated` of a server, which knows best. */
  confirm(event: Json): void {
    this.#main = nameOf(objectOf(event.session).model) ?? this.#main;
  }

  /** Reads the model of a call, for those that follow without one. */
  use(name: string): void {
    this.#main = name;
  }

  /** Query of a call without a model of its own: one `model` for each that may answer it. */
  get query(): string {
    const names = new Set([...(this.#main === undefined ? [] : [this.#main]), ...this.#more]);
    return [...names].map((name) => `model=${encodeURIComponent(name)}`).join("&");
  }
}

function* namesIn(value: unknown, depth = 0): Generator<string> {
  if (depth > JSON_DEPTH_MAX) return;
  if (Array.isArray(value)) { for (const item of value) yield* namesIn(item, depth + 1); }
  else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (key === "model" && typeof item === "string") yield item;
      else yield* namesIn(item, depth + 1);
    }
  }
}
