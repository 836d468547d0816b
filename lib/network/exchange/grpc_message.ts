/**
 * Messages of gRPC for rules on their fields, where the profile has descriptors of the service. A call that
 * such rules cannot be asked about is refused (docs/design/contracts/05-policy.md §5, "gRPC").
 */
import { setImmediate } from "node:timers";
import type { HttpGrpc } from "../../event/mod.ts";
import {
  type Decision,
  type Draft,
  type Gate,
  guardDecision,
  type Passage,
  type Refusal,
  summary,
} from "../../policy/mod.ts";
import { decodeMessage, GRPC_MESSAGE_MAX, type GrpcMethod, type GrpcTypes, Unreadable } from "../grpc/mod.ts";
import type { BodySource } from "../message/body.ts";
import { ByteBuffer } from "../message/bytes.ts";
import { encodingOf } from "../message/encoding.ts";
import { splitTarget } from "../message/head.ts";
import type { Header } from "../message/header.ts";
import type { BufferBudget, BufferedBody, Receiving } from "./body_buffer.ts";
import type { ExchangeContext } from "./context.ts";
import { SbxError } from "../../base/error/mod.ts";
import { lenientReadings } from "../../base/url/mod.ts";
import { COMPRESSED, type Frame, frameAt, grpcOf, hasMessage, PREFIX } from "./grpc.ts";
import type { CapturedHead } from "./request.ts";

/** Longest message that is held, with its prefix, in `bytes`. */
const HELD_MAX = GRPC_MESSAGE_MAX + PREFIX;
/** Part of events that holds the fields of a message, as `Gate.reads` takes it. */
const REQUEST_MESSAGE = "http.request.grpc.message";
/** Content types whose messages are protobuf, and are not in base64. */
const PROTOBUF = /^application\/grpc(-web)?(\+proto)?[ \t]*(;|$)/i;
/** Fields of gzip around its data: a header without options, and the checksum and length of the text. */
const GZIP_HEAD = 10, GZIP_TAIL = 8;
/** Time after which other work gets its turn between two messages, in `ms`. */
const TURN_MS = 10;

/** The part of an event that a message adds. */
type MessageFields = Pick<HttpGrpc, "message" | "message_type">;

/** Reader of one call's messages; made where a rule reads fields, and the service is described. */
export class CallMessages {
  /** why they cannot be read */
  fault?: string;
  /** the decision that ended the call after its first message */
  refusal?: Decision;
  readonly #method?: GrpcMethod;
  readonly #encodings: string[];
  readonly #scrub: (text: string) => string;
  /** body whose later messages are checked as they pass */
  #passing?: CheckedMessages;
  /** beginning of the work that other work waits for */
  #turnAt = performance.now();

  private constructor(
    found: GrpcMethod | string,
    headers: readonly Header[],
    scrub: (text: string) => string,
  ) {
    if (typeof found === "string") this.fault = found;
    else this.#method = found;
    this.#encodings = headers.filter(([name]) => name === "grpc-encoding").map(([, value]) => value.trim());
    this.#scrub = scrub;
  }

  /** @returns `undefined` for a request whose messages no rule reads */
  static of({ gate, grpcTypes, broker }: ExchangeContext, head: CapturedHead): CallMessages | undefined {
    if (!gate.reads(REQUEST_MESSAGE)) return undefined;
    const call = grpcOf(head);
    const types = grpcTypes?.();
    const of = (found: GrpcMethod | string) =>
      new CallMessages(found, head.headers, (text) => broker.scrub(text));
    if (!types) return call && of("the profile has no descriptors");
    if (!call || !types.has(call.service)) return isDisguised(head, types) ? of(DISGUISED) : undefined;
    const found = types.find(call.service, call.method) ??
      `the descriptors have no method ${call.method} of its service`;
    return of(hidden(head.headers) ?? found);
  }

  /** `bytes` of the body that the decision needs. */
  get bodyMax(): number {
    return this.fault === undefined ? HELD_MAX + 1 : 0;
  }

  /**
   * True for bytes that the decision can be made on: the first message of a client that may wait for an
   * answer before it sends more; of any other the body, which ends with its only message.
   */
  isEnough(bytes: Uint8Array): boolean {
    return this.#method === undefined || this.#method.streams && hasMessage(bytes);
  }

  /** Reads the first message, for the event. Sets {@linkcode fault} where that cannot be done. */
  async read({ first, complete }: BufferedBody): Promise<MessageFields> {
    const method = this.#method;
    if (!method) return {};
    try {
      const frame = frameAt(first, 0);
      if (method.streams && frame === undefined && complete && first.length === 0) return {};
      if (frame === undefined) throw new Unreadable(complete ? "it ends too early" : "it is too long");
      if (!method.streams && (!complete || frame.end !== first.length)) {
        throw new Unreadable("its method takes one message, and more follows");
      }
      return await this.#decode(method, frame);
    } catch (error) {
      this.fault = faultOf(error);
      return {};
    }
  }

  async #decode({ input }: GrpcMethod, { flag, bytes }: Frame): Promise<MessageFields> {
    if (flag > COMPRESSED) throw new Unreadable("its flags are not known");
    const plain = flag === COMPRESSED ? await inflate(bytes, this.#encodings) : bytes;
    return { message: decodeMessage(input, plain, this.#scrub), message_type: input.typeName };
  }

  /** The client may send messages after the one that was decided on. */
  get #hasLater(): boolean {
    return this.#method?.streams === true;
  }

  /**
   * Decides on the later messages of a body that has arrived completely; of any other,
   * {@linkcode checkPassing} does.
   *
   * @param requireClient throws once nothing waits for the answer any more
   * @throws {SbxError} `policy.blocked`
   */
  async checkComplete(
    { first, complete }: BufferedBody,
    gate: Gate,
    passage: Passage,
    requireClient: () => void,
  ): Promise<void> {
    if (!this.#hasLater || !complete) return;
    let at = frameAt(first, 0)?.end;
    for (let frame = at && frameAt(first, at); frame; frame = frameAt(first, at)) {
      requireClient();
      await this.#check(frame, gate, passage);
      at = frame.end;
    }
  }

  /** Returns the body with its later messages decided on as they pass; {@linkcode release} ends it. */
  checkPassing(body: BodySource, gate: Gate, passage: Passage, budget: BufferBudget): BodySource {
    if (!this.#hasLater) return body;
    return this.#passing = new CheckedMessages(body, (frame) => this.#check(frame, gate, passage), budget);
  }

  /** Gives room of held messages back. */
  release(): void {
    this.#passing?.release();
  }

  /**
   * Decides on a later message as on the first one. A rule that a person has allowed stays allowed.
   *
   * @throws {SbxError} `policy.blocked`: it is not sent, and ends the call
   */
  async #check(frame: Frame, gate: Gate, passage: Passage): Promise<void> {
    await this.#takeTurn();
    const { common, http } = passage.event;
    let fields: MessageFields;
    try {
      fields = await this.#decode(this.#method!, frame);
    } catch (error) {
      throw this.#end(passage, guardDecision(common.event_id, messageRefusal(faultOf(error))));
    }
    const grpc = { ...http!.request.grpc!, ...fields };
    const draft = { common, http: { request: { ...http!.request, grpc } } } as Draft;
    const { allowed, decision } = gate.preview(draft);
    const { event_id } = common;
    if (allowed || decision.decision === "ask" && isAllowedByPerson(passage.decision, decision.rule)) {
      if (decision.rewrites.every((rewrite) => hasRewrite(passage.decision, rewrite))) return;
      throw this.#end(passage, guardDecision(event_id, LATE_REWRITE));
    }
    // The record has no values of messages.
    const bare = { matched_fields: [], near_misses: [] };
    throw this.#end(passage, { ...decision, event_id, decision: "block", ...bare });
  }

  /** Lets other work of this process run: a few bytes may hold thousands of messages, or of values. */
  async #takeTurn(): Promise<void> {
    if (performance.now() - this.#turnAt < TURN_MS) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#turnAt = performance.now();
  }

  /** Records the end of a call by one of its later messages. */
  #end(passage: Passage, refusal: Decision): SbxError {
    this.refusal = refusal;
    const error = `a later message of the call was refused: ${summary(refusal)}`;
    passage.finish({ error, decision: refusal });
    return new SbxError("policy.blocked", error);
  }
}

/** Service and method as the last two segments of a path, and perhaps a slash. */
const CALL = /\/([^/]+)\/[^/]+\/?$/;
const DISGUISED =
  "it is no POST with the service's own path and the content type application/grpc or application/grpc-web";

/**
 * True for a request that a lenient server may take as a call of a described service: some read no content
 * type, others a path in any case, with escapes, parameters or a last slash. Browsers ask with OPTIONS,
 * without a message, whether they may call.
 */
function isDisguised({ method, target }: CapturedHead, types: GrpcTypes): boolean {
  if (method === "OPTIONS") return false;
  const { path } = splitTarget(target);
  return [path, ...lenientReadings(path)].some((reading) => {
    const service = CALL.exec(reading)?.[1];
    return service !== undefined && types.hasInAnyCase(service);
  });
}

/** Why no message of a call can be read, by its head. */
function hidden(headers: readonly Header[]): string | undefined {
  const types = headers.filter(([name]) => name === "content-type");
  if (types.length !== 1 || !PROTOBUF.test(types[0][1].trim())) {
    return "its content type is not application/grpc or application/grpc-web, with protobuf";
  }
  return encodingOf(headers) === undefined ? undefined : "its body has a content-encoding";
}

function faultOf(error: unknown): string {
  if (error instanceof Unreadable) return error.message;
  throw error;
}

/** Refusal of a call whose messages rules cannot be asked about. */
export function messageRefusal(fault: string): Refusal {
  return {
    id: "guard-grpc",
    reason: `a rule reads the messages of this service, and this call's cannot be read: ${fault}`,
    remedy:
      "send it as the service's own clients do; renew the profile's descriptors if the service is newer",
  };
}

/** Refusal of a later message for which a rule changes the head, which has been sent. */
const LATE_REWRITE: Refusal = {
  id: "guard-grpc",
  reason: "a rule rewrites the call for this message, and the call has begun without that",
  remedy: "send the message in a call of its own",
};

/** True if a person allowed the call when this rule asked. Rules of two layers may have one id. */
function isAllowedByPerson({ answered, rule }: Decision, { id, layer }: Decision["rule"]): boolean {
  const isPerson = answered?.status === "allowed" && answered.by_rule === undefined;
  return isPerson && rule.id === id && rule.layer === layer;
}

function hasRewrite({ rewrites }: Decision, { rule_id, op, path }: Decision["rewrites"][number]): boolean {
  return rewrites.some((made) => made.rule_id === rule_id && made.op === op && made.path === path);
}

/**
 * Undoes the compression of a message. Only one gzip without options is read: some readers stop at the end of
 * the first, and others read on.
 */
async function inflate(bytes: Uint8Array, encodings: readonly string[]): Promise<Uint8Array> {
  if (encodings.length !== 1 || encodings[0] !== "gzip") throw new Unreadable("its compression is not gzip");
  const isPlainHead = bytes.length >= GZIP_HEAD + GZIP_TAIL && bytes[0] === 0x1f && bytes[1] === 0x8b &&
    bytes[2] === 8 && bytes[3] === 0;
  if (!isPlainHead) throw new Unreadable("its compression is damaged, or has options");
  const { crc32, inflateRawSync } = await import("node:zlib");
  const data = bytes.subarray(GZIP_HEAD, -GZIP_TAIL);
  let plain: Uint8Array, read: number;
  try {
    // With `info`, the answer is not the one that its type names.
    const { buffer, engine } = inflateRawSync(data, {
      info: true,
      maxOutputLength: GRPC_MESSAGE_MAX,
    }) as unknown as { buffer: Uint8Array; engine: { bytesWritten: number } };
    [plain, read] = [new Uint8Array(buffer), engine.bytesWritten];
  } catch {
    throw new Unreadable("its compression is damaged, or it is too long");
  }
  const tail = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - GZIP_TAIL);
  const isWhole = read === data.length && tail.getUint32(4, true) === plain.length &&
    tail.getUint32(0, true) === crc32(plain);
  if (!isWhole) throw new Unreadable("its compression is damaged");
  return plain;
}

/**
 * The body of a client that sends message after message: each passes once it is whole and was checked. The
 * first one was decided on before.
 */
export class CheckedMessages implements BodySource, Receiving {
  readonly #body: BodySource;
  readonly #check: (frame: Frame) => Promise<void>;
  readonly #budget: BufferBudget;
  #held = new ByteBuffer();
  #reserved = 0;
  #isFirst = true;
  /** why it takes no more room; `#fail` fails the read that waits */
  #fault?: SbxError;
  #fail?: (fault: SbxError) => void;

  /** @param budget of its held bytes; {@linkcode release} gives them back */
  constructor(body: BodySource, check: (frame: Frame) => Promise<void>, budget: BufferBudget) {
    this.#body = body;
    this.#check = check;
    this.#budget = budget;
  }

  get trailers(): readonly Header[] {
    return this.#body.trailers;
  }

  get done(): boolean {
    return this.#body.done && this.#held.count === 0;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  /** @throws {SbxError} `policy.blocked` */
  async read(): Promise<Uint8Array | null> {
    while (true) {
      const piece = await this.#readPiece();
      if (this.#fault) throw this.#fault;
      // A message that was cut off is not sent.
      if (piece === null) {
        this.#held = new ByteBuffer();
        this.#reserve(0);
        return null;
      }
      this.#held.add(piece);
      const { bytes } = this.#held;
      let end = 0;
      for (let frame = frameAt(bytes, 0); frame; frame = frameAt(bytes, end)) {
        if (!this.#isFirst) await this.#check(frame);
        this.#isFirst = false;
        end = frame.end;
      }
      if (this.#fault) throw this.#fault;
      if (end > 0) this.#budget.complete(this);
      this.#reserve(bytes.length - end);
      if (end === 0) continue;
      this.#held = new ByteBuffer();
      this.#held.add(bytes.subarray(end));
      return bytes.subarray(0, end);
    }
  }

  /** Gives the room back for good, also of a read that goes on. */
  release(): void {
    this.#fault ??= new SbxError("policy.blocked", "the call has ended");
    this.#held = new ByteBuffer();
    this.#reserve(0);
  }

  end(): void {
    this.#fault ??= new SbxError("policy.blocked", "a message arrived slowly while others needed its room");
    this.release();
    this.#fail?.(this.#fault);
  }

  #readPiece(): Promise<Uint8Array | null> {
    if (this.#reserved === 0) return this.#body.read();
    this.#budget.begin(this);
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      this.#body.read().then(resolve, reject);
    });
  }

  /** Makes room for held bytes, in steps that double; gives it back. @throws {SbxError} `policy.blocked` */
  #reserve(count: number): void {
    if (count > this.#reserved) {
      const room = Math.min(Math.max(count, this.#reserved * 2), HELD_MAX) - this.#reserved;
      // While it waits for room itself, it is not the one to make it.
      this.#budget.complete(this);
      if (count > HELD_MAX || !this.#budget.take(room)) {
        throw new SbxError("policy.blocked", "a message is too long to be read for rules");
      }
      this.#reserved += room;
    } else if (count * 2 < this.#reserved || count === 0) {
      this.#budget.complete(this);
      this.#budget.bytes -= this.#reserved - count;
      this.#reserved = count;
    }
  }
}
