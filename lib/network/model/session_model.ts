import { type Json, nameOf, objectOf } from "./json.ts";
import { modelsIn } from "./name.ts";

/** Most names kept, and most updates that wait for their confirmation; beyond them, calls cannot be read. */
const KEPT_MAX = 64;

/** Models that may answer on a WebSocket, as its address, its calls and its session name them. */
export class SessionModel {
  /** model of the address, of the last call that was sent, or of the session as the server confirmed it */
  main?: string;
  /** models that updates of the session ask for, oldest first; the server may be late, or refuse one */
  readonly #wanted: (string | undefined)[] = [];
  /** models beside it: those of a transcription, for example */
  readonly #more = new Set<string>();
  #isFull = false;

  /** @param query of the upgraded request */
  constructor(query: string) {
    const [main, ...more] = new URLSearchParams(query).getAll("model");
    this.main = main;
    for (const name of more) this.#add(name);
  }

  /** Reads `session.update` of a client: until the server confirms it, the model before may answer as well. */
  update(event: Json): void {
    const session = objectOf(event.session);
    const wanted = nameOf(session.model);
    for (const name of modelsIn(session)) if (name !== wanted && name !== this.main) this.#add(name);
    if (this.#wanted.length < KEPT_MAX) this.#wanted.push(wanted);
    else this.#isFull = true;
  }

  /** Reads `session.created` of a server, and `session.updated`, which confirms an update no older than the first one. */
  confirm({ type, session }: Json): void {
    if (type === "session.updated") this.#wanted.shift();
    this.main = nameOf(objectOf(session).model) ?? this.main;
  }

  /** Query of a call without a model of its own: one `model` for each that may answer it. */
  get query(): string {
    const names = new Set([this.main, ...this.#wanted, ...this.#more]);
    names.delete(undefined);
    // An empty name is none: the call is refused.
    if (this.#isFull) names.add("");
    return [...names].map((name) => `model=${encodeURIComponent(name!)}`).join("&");
  }

  #add(name: string): void {
    if (this.#more.size < KEPT_MAX) this.#more.add(name);
    else this.#isFull = true;
  }
}
