/** A model call among HTTP: an event of its own, and a reader that never stands in the way of the stream. */
import { SbxError } from "../../base/error/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Decision, Gate } from "../../policy/mod.ts";
import type { Requester } from "./draft.ts";
import type { Header } from "../message/header.ts";
import type { ModelCall } from "../port/model.ts";

/** What was decided on a model call: it goes out, perhaps with another body, or it does not. */
export type ModelVerdict = { allowed: true; body?: Uint8Array } | { allowed: false; decision: Decision };

export class ModelTap {
  readonly #gate: Gate;
  #call?: ModelCall;
  #event?: Event;
  #began = 0;
  #first_byte_ms?: number;

  constructor(gate: Gate, call: ModelCall) {
    this.#gate = gate;
    this.#call = call;
  }

  /**
   * Decides on the call; `undefined` when it is none.
   *
   * @param body the request's, without encoding
   * @throws {SbxError} `policy.rewrite.invalid` for a rewrite that the body cannot take
   */
  async decide(
    by: Requester,
    body: Uint8Array,
    complete: boolean,
    scrub: (text: string) => string,
    signal: AbortSignal,
  ): Promise<ModelVerdict | undefined> {
    const draft = this.#safely((call) => call.request(body, complete, scrub));
    if (!draft) {
      this.#call = undefined;
      return undefined;
    }
    const { actor, process } = by;
    const common = { ...draft.common, actor, ...(process && { process }) };
    const { allowed, event, decision } = await this.#gate.decide({ ...draft, common }, signal);
    if (!allowed) return { allowed, decision };
    this.#event = event;
    this.#began = performance.now();
    const changed = decision.rewrites.length > 0 ? this.#rewritten(event, body, complete) : undefined;
    return { allowed, ...(changed && { body: changed }) };
  }

  head(status: number, headers: Header[]): void {
    this.#first_byte_ms ??= performance.now() - this.#began;
    this.#safely((call) => call.head(status, headers));
  }

  chunk(bytes: Uint8Array): void {
    if (this.#call) this.#safely((call) => call.chunk(bytes));
  }

  /** The call is over. Does nothing the second time. */
  end(error?: string): void {
    const event = this.#event;
    if (!event) return;
    this.#event = undefined;
    const response = this.#safely((call) => call.end(error));
    this.#gate.finish(event, {
      ...(response && { response }),
      ...(this.#first_byte_ms !== undefined && { first_byte_ms: this.#first_byte_ms }),
      duration_ms: performance.now() - this.#began,
      ...(error !== undefined && { error }),
    });
  }

  #rewritten(event: Event, body: Uint8Array, complete: boolean): Uint8Array | undefined {
    const refused = (cause?: unknown) =>
      new SbxError(
        "policy.rewrite.invalid",
        "a rule rewrites this model call, whose body cannot be rewritten",
        {
          cause,
        },
      );
    if (!complete || !this.#call?.rewrite) throw refused();
    try {
      return this.#call.rewrite(event, body);
    } catch (cause) {
      throw refused(cause);
    }
  }

  /** Whatever a reader does wrong ends its reading. */
  #safely<T>(work: (call: ModelCall) => T): T | undefined {
    if (!this.#call) return undefined;
    try {
      return work(this.#call);
    } catch {
      this.#call = undefined;
      return undefined;
    }
  }
}
