/** A model call among HTTP requests: an event of its own, and a reader that never disturbs the stream. */
import { SbxError } from "../../base/error/mod.ts";
import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Decision, Gate, Passage } from "../../policy/mod.ts";
import type { Header } from "../message/header.ts";
import type { ModelCall, ModelRequest } from "../port/mod.ts";
import type { Requester } from "./draft.ts";
import type { CapturedHead, IncomingRequest } from "./request.ts";

/** Decision on a model call: it is sent, with its rewritten body if there is one, or it is blocked. */
export type ModelVerdict = { allowed: true; body?: Uint8Array } | { allowed: false; decision: Decision };

/** Decides on one model call, and reads its response as it passes. */
export class ModelTap {
  readonly #gate: Gate;
  #call?: ModelCall;
  #passage?: Passage;

  constructor(gate: Gate, call: ModelCall) {
    this.#gate = gate;
    this.#call = call;
  }

  /**
   * Decides on the call; `undefined` when the request is not a model call.
   *
   * @param body the request's body without encoding
   * @throws {SbxError} `policy.rewrite.invalid` for a rewrite that cannot be applied to the body
   */
  async decide(
    by: Requester,
    body: Uint8Array,
    complete: boolean,
    scrub: (text: string) => string,
    signal: AbortSignal,
  ): Promise<ModelVerdict | undefined> {
    const draft = this.#read((call) => call.request(body, complete, scrub));
    if (!draft) {
      this.#call = undefined;
      return undefined;
    }
    const { actor, process } = by;
    const common = { ...draft.common, actor, ...(process && { process }) };
    const passage = await this.#gate.decide({ ...draft, common }, signal);
    const { allowed, event, decision } = passage;
    if (!allowed) return { allowed, decision };
    this.#passage = passage;
    const rewritten = decision.rewrites.length > 0 ? this.#rewriteBody(event, body, complete) : undefined;
    return { allowed, ...(rewritten && { body: rewritten }) };
  }

  head(status: number, headers: Header[]): void {
    this.#passage?.markFirstByte();
    this.#read((call) => call.head(status, headers));
  }

  chunk(bytes: Uint8Array): void {
    if (this.#call) this.#read((call) => call.chunk(bytes));
  }

  /** Ends the call; a second call does nothing. */
  end(error?: string): void {
    const passage = this.#passage;
    if (!passage) return;
    this.#passage = undefined;
    const response = this.#read((call) => call.end(error));
    passage.finish({ ...(response && { response }), ...(error !== undefined && { error }) });
  }

  #rewriteBody(event: Event, body: Uint8Array, complete: boolean): Uint8Array | undefined {
    if (!complete || !this.#call?.rewrite) throw rewriteError();
    try {
      return this.#call.rewrite(event, body);
    } catch (cause) {
      throw rewriteError(cause);
    }
  }

  /** Runs a step of the reader; its error ends the reading. */
  #read<T>(step: (call: ModelCall) => T): T | undefined {
    if (!this.#call) return undefined;
    try {
      return step(this.#call);
    } catch {
      this.#call = undefined;
      return undefined;
    }
  }
}

/** Request as the model port reads it. */
export function modelRequestOf(
  { scheme, host, port }: IncomingRequest,
  { method, target, headers }: CapturedHead,
): ModelRequest {
  const [path, ...query] = target.split("?");
  return { method, scheme, host, port, path: lenientPath(path), query: query.join("?"), headers };
}

function rewriteError(cause?: unknown): SbxError {
  return new SbxError(
    "policy.rewrite.invalid",
    "a rule rewrote a model call whose body cannot be rewritten",
    {
      cause,
    },
  );
}
