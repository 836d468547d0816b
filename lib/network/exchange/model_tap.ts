/** A model call among HTTP requests: an event of its own, and a reader that never disturbs the stream. */
import { SbxError } from "../../base/error/mod.ts";
import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Decision, Draft, Gate, Outcome, Passage, Refusal } from "../../policy/mod.ts";
import { NO_BYTES } from "../message/byte_buffer.ts";
import { type Header, headerValue } from "../message/header.ts";
import { splitTarget } from "../message/target.ts";
import type { Destination, ModelCall, ModelDraft, ModelRequest, Scrub } from "../interface/mod.ts";
import type { CapturedHead, Requester } from "./request.ts";
import type { ModelBody } from "./model_body.ts";
import type { ResponseTap, TapEnd } from "./response_tap.ts";
import { UsageStrip } from "./usage_strip.ts";

/** Decision on a model call: it is sent, with its rewritten body if there is one, or it is blocked. */
export type ModelVerdict = { allowed: true; body?: Uint8Array } | { allowed: false; decision: Decision };

/** Decides on one model call, and reads its response as it passes. */
export class ModelTap implements ResponseTap {
  readonly #gate: Gate;
  #call?: ModelCall;
  #passage?: Passage;
  /** draft of a call that the upstream made unrequested */
  #unasked?: Draft;
  /** the first message of the response is here */
  begun = false;
  /** a budget counts the call */
  isCounted = false;
  /** the provider was asked to count the stream, which the client did not ask for */
  #strip?: UsageStrip;
  /** content type of the response */
  #type = "";

  constructor(gate: Gate, call: ModelCall) {
    this.#gate = gate;
    this.#call = call;
  }

  /**
   * Decides on the call; `undefined` when the request is not a model call.
   *
   * @throws {SbxError} `policy.rewrite.invalid` for a rewrite that cannot be applied to the body, `model.request.invalid`
   * when the reader fails and rules read models
   */
  async decide(
    by: Requester,
    { bytes, fault: missing }: ModelBody,
    scrub: Scrub,
    signal: AbortSignal,
  ): Promise<ModelVerdict | undefined> {
    const rulesRead = this.#gate.reads("model"), { countsModels } = this.#gate;
    const read = this.#readRequest(bytes, missing, scrub, rulesRead || countsModels);
    const fault = rulesRead ? read?.fault() : undefined;
    const bill = countsModels ? read?.bill() : undefined;
    if (!read || read.isGuess && fault === undefined && bill?.fault === undefined) {
      this.#call = undefined;
      return undefined;
    }
    const draft: Draft = { ...read.draft, common: { ...read.draft.common, ...by }, ...(bill && { bill }) };
    if (fault !== undefined) return { allowed: false, decision: this.#gate.refuse(draft, refusalOf(fault)) };
    const passage = await this.#gate.decide(draft, signal);
    const { allowed, event, decision } = passage;
    if (!allowed) return { allowed, decision };
    this.#passage = passage;
    this.isCounted = countsModels;
    const rewritten = decision.rewrites.length > 0
      ? this.#rewriteBody(event, bytes, missing === undefined)
      : countsModels
      ? read.counted()
      : undefined;
    if (rewritten && decision.rewrites.length === 0) this.#strip = new UsageStrip();
    return { allowed, ...(rewritten && { body: rewritten }) };
  }

  #readRequest(
    bytes: Uint8Array,
    missing: string | undefined,
    scrub: Scrub,
    rulesRead: boolean,
  ): ModelDraft | undefined {
    try {
      return this.#call?.request(bytes, missing, scrub);
    } catch (cause) {
      if (!rulesRead) return undefined;
      throw new SbxError("model.request.invalid", "a request that may be a model call cannot be read", {
        cause,
      });
    }
  }

  /** True while the client must not see the counts that it did not ask for. */
  get strips(): boolean {
    return this.#strip?.isOf(this.#type) ?? false;
  }

  /** Bytes of the response for the client. */
  forClient(bytes: Uint8Array): Uint8Array {
    return this.strips ? this.#strip!.push(bytes) : bytes;
  }

  /** The rest for the client. */
  clientEnd(): Uint8Array {
    return this.strips ? this.#strip!.end() : NO_BYTES;
  }

  /** Records a call that the upstream makes unrequested; it passes regardless of the rules. */
  observe(by: Requester, scrub: Scrub): void {
    const draft = this.#read((call) => call.request(NO_BYTES, undefined, scrub))?.draft;
    if (!draft) return;
    this.#unasked = { ...draft, common: { ...draft.common, ...by } };
  }

  /** As {@linkcode ModelTap.head}, for the first of several messages. */
  begin(status: number, headers: Header[]): void {
    if (!this.begun) this.head(status, headers);
    this.begun = true;
  }

  head(status: number, headers: Header[]): void {
    this.#passage?.markFirstByte();
    this.#type = headerValue(headers, "content-type") ?? "";
    this.#read((call) => call.head(status, headers));
  }

  chunk(bytes: Uint8Array): void {
    if (this.#call) this.#read((call) => call.chunk(bytes));
  }

  /** Ends the call; a second call does nothing. */
  end(error?: string, end: TapEnd = {}): void {
    const passage = this.#passage;
    if (this.#unasked) this.#gate.observe(this.#unasked, this.#outcomeOf(error, end));
    this.#unasked = undefined;
    if (!passage) return;
    this.#passage = undefined;
    passage.finish(this.#outcomeOf(error, end));
  }

  #outcomeOf(error: string | undefined, { unsent, complete = error === undefined }: TapEnd): Outcome {
    const response = this.#read((call) => call.end(complete ? undefined : error));
    const use = this.#read((call) => call.use(complete)) ?? { complete: false };
    return {
      ...(response && { response }),
      ...(error !== undefined && { error }),
      use: { ...use, ...(unsent && { unsent }) },
    };
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

function refusalOf(fault: string): Refusal {
  return {
    id: "guard-model",
    reason: `a rule reads models, and this request to a provider cannot be read: ${fault}`,
    remedy: "send one model's name in a JSON body of at most 8 MiB, in UTF-8 and without repeated keys",
  };
}

/** Request as the model port reads it. @param destination where it is sent */
export function modelRequestOf(
  { scheme, host, port }: Destination,
  { method, target, headers }: CapturedHead,
): ModelRequest {
  const { path, query } = splitTarget(target);
  return { method, scheme, host, port, path: lenientPath(path), query, headers };
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
