/** A model call among HTTP requests: an event of its own, and a reader that never disturbs the stream. */
import { SbxError } from "../../base/error/mod.ts";
import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import type { Decision, Draft, Gate, Outcome, Passage, Refusal } from "../../policy/mod.ts";
import { ByteBuffer, NO_BYTES } from "../message/bytes.ts";
import { type Header, headerValue } from "../message/header.ts";
import { splitTarget } from "../message/head.ts";
import type {
  Destination,
  LaterAnswer,
  ModelCall,
  ModelDraft,
  ModelRequest,
  Scrub,
} from "../interface/mod.ts";
import type { CapturedHead, Requester } from "./request.ts";
import { BUFFERED_BODY_MAX } from "../limit.ts";
import { decodeBody, encodingOf } from "../message/encoding.ts";
import type { BufferedBody } from "./body_buffer.ts";
import { joinBytes } from "../../base/bytes/mod.ts";
import { isObject } from "../../base/object/mod.ts";

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
   * @throws {SbxError} `policy.rewrite.invalid` for a rewrite that cannot be applied to the body,
   * `model.request.invalid` when the reader fails and rules read models
   */
  async decide(
    by: Requester,
    { bytes, fault: missing }: ModelBody,
    scrub: Scrub,
    signal: AbortSignal,
    heldMs?: number,
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
    const passage = await this.#gate.decide(draft, signal, undefined, heldMs);
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

/** Body of a request that may be a model call, without encoding. */
interface ModelBody {
  bytes: Uint8Array;
  /** why these are not all its bytes, as a clause; absent when they are */
  fault?: string;
}

/** Body as a model call's reader reads it. @param rewritten the body as rules rewrote it */
export async function modelBodyOf(
  { headers }: CapturedHead,
  { first, complete }: BufferedBody,
  rewritten: Uint8Array | undefined,
): Promise<ModelBody> {
  if (rewritten) return { bytes: rewritten };
  if (!complete) return { bytes: first, fault: "its body is too long to be held" };
  const encoding = encodingOf(headers);
  if (encoding === undefined) return { bytes: first };
  const decoded = await decodeBody(first, encoding, BUFFERED_BODY_MAX);
  if (!decoded) return { bytes: first, fault: `its content encoding ${encoding} is unknown` };
  if (decoded.whole) return { bytes: decoded.bytes };
  return { bytes: decoded.bytes, fault: "its content encoding is damaged, or its body too long to be held" };
}

// Takes the counts out of a stream whose client did not ask for them: some fail on
// their event, which has no choices.

/** Longest event that is held, in `bytes`; the counts have some hundred. */
const EVENT_MAX = 64 * 1024;
const LF = 10;
const CR = 13;

export class UsageStrip {
  /** of the event that is not complete */
  #held: Uint8Array = NO_BYTES;
  /** the event is longer than any event with counts: it passes as it arrives */
  #isLong = false;

  /** True for content types of event streams. */
  isOf(contentType: string): boolean {
    return /^text\/event-stream\b/i.test(contentType);
  }

  /** @returns the bytes that may pass, in a buffer of their own */
  push(bytes: Uint8Array): Uint8Array {
    const all = joinBytes([this.#held, bytes]);
    const passing = new ByteBuffer();
    let start = 0;
    for (let end = eventEnd(all, start); end >= 0; end = eventEnd(all, start)) {
      const event = all.subarray(start, end);
      if (this.#isLong || !isCounts(event)) passing.add(event);
      this.#isLong = false;
      start = end;
    }
    this.#held = all.slice(start);
    if (this.#isLong || this.#held.length > EVENT_MAX) {
      this.#isLong = true;
      // The last bytes may be the beginning of its end.
      const cut = Math.max(0, this.#held.length - 3);
      passing.add(this.#held.subarray(0, cut));
      this.#held = this.#held.slice(cut);
    }
    return passing.bytes.slice();
  }

  /** @returns the rest of a stream that ended within an event */
  end(): Uint8Array {
    const rest = this.#held;
    this.#held = NO_BYTES;
    return !this.#isLong && isCounts(rest) ? NO_BYTES : rest;
  }
}

/** Offset behind the blank line that ends an event; -1 without one. */
function eventEnd(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2;
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3;
  }
  return -1;
}

/** True for the event that has counts and nothing else. */
function isCounts(event: Uint8Array): boolean {
  if (event.length > EVENT_MAX) return false;
  const data = new TextDecoder().decode(event).split(/\r?\n/).filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5)).join("\n");
  try {
    const value = JSON.parse(data);
    return isObject(value) && Array.isArray(value.choices) && value.choices.length === 0 &&
      isObject(value.usage);
  } catch {
    return false;
  }
}

// Readers of a response as it passes.

/** How far a request and its answer got. */
export interface TapEnd {
  /** nothing of the request was sent */
  unsent?: boolean;
  /** the answer came to its end, whether or not the client took it */
  complete?: boolean;
}

/** Reads a response as it passes; it never disturbs it. */
export interface ResponseTap {
  /** a budget counts the call: its answer is read on when the client is gone */
  readonly isCounted: boolean;
  /** the client gets other bytes than the upstream sends */
  readonly strips: boolean;
  head(status: number, headers: Header[]): void;
  chunk(bytes: Uint8Array): void;
  forClient(bytes: Uint8Array): Uint8Array;
  clientEnd(): Uint8Array;
  end(error?: string, end?: TapEnd): void;
}

/** Counts a call of a model again by its answer, which the client fetches. */
export class LaterTap implements ResponseTap {
  readonly isCounted = false;
  readonly strips = false;
  readonly #gate: Gate;
  #answer?: LaterAnswer;

  constructor(gate: Gate, answer: LaterAnswer) {
    this.#gate = gate;
    this.#answer = answer;
  }

  head(status: number, headers: Header[]): void {
    this.#read((answer) => answer.head(status, headers));
  }

  chunk(bytes: Uint8Array): void {
    this.#read((answer) => answer.chunk(bytes));
  }

  forClient(bytes: Uint8Array): Uint8Array {
    return bytes;
  }

  clientEnd(): Uint8Array {
    return new Uint8Array();
  }

  end(error?: string, { complete = error === undefined }: TapEnd = {}): void {
    const use = complete ? this.#read((answer) => answer.end()) : undefined;
    this.#answer = undefined;
    if (use) this.#gate.correctUse(use);
  }

  /** An unreadable answer leaves the count unreduced. */
  #read<T>(step: (answer: LaterAnswer) => T): T | undefined {
    try {
      return this.#answer && step(this.#answer);
    } catch {
      this.#answer = undefined;
      return undefined;
    }
  }
}
