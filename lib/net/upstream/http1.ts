/** One HTTP/1.1 exchange on a connection to an upstream. */
import { type BodySource, WholeBody, WireBody } from "../message/body.ts";
import type { Connection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { answerFraming, keepsAlive } from "../message/framing.ts";
import { type AnswerHead, headEnd, parseAnswerHead } from "../message/head.ts";
import { endToEnd, type Header, headerValue, mayTrail } from "../message/header.ts";
import { HEAD_MAX, INTERIM_MAX, type Timeouts } from "../limit.ts";
import type { OutgoingRequest, UpstreamAnswer, UpstreamExchange } from "./upstream.ts";
import { BodyWriter, headText } from "../message/write.ts";

/** An exchange that has begun on a connection which nobody else uses. */
export class Http1Exchange implements UpstreamExchange {
  readonly answer: Promise<UpstreamAnswer>;
  /** whether any byte of an answer has come: until then the upstream may not have seen the request */
  answered = false;
  readonly refused = false;
  readonly #connection: Connection;
  readonly #timeouts: Timeouts;
  readonly #free: (reusable: boolean) => void;
  #sent = false;
  #alive = false;
  #freed = false;

  /** @param free called once; `reusable` when the connection may serve another request */
  constructor(
    connection: Connection,
    request: OutgoingRequest,
    timeouts: Timeouts,
    free: (reusable: boolean) => void,
  ) {
    this.#connection = connection;
    this.#timeouts = timeouts;
    this.#free = free;
    const { body } = request;
    if (body instanceof WholeBody) {
      // Where writing fails, reading says why.
      this.#sendWhole(request, body.bytes);
      this.answer = this.#read(request);
    } else {
      const sending = this.#send(request, body);
      const answer = this.#read(request);
      // A request that does not get out explains itself best; but an upstream may answer before it has it all.
      this.answer = Promise.race([answer, sending.then(() => answer)]);
      sending.catch(() => {});
      answer.catch(() => {});
    }
    this.answer.catch(() => {});
  }

  done(): void {
    this.#connection.deadline.off();
    this.#end(this.#sent && this.#alive && this.#connection.count === 0 && !this.#connection.closed);
  }

  abort(): void {
    this.#end(false);
  }

  #end(reusable: boolean): void {
    if (this.#freed) return;
    this.#freed = true;
    this.#free(reusable);
  }

  async #sendWhole(request: OutgoingRequest, bytes: Uint8Array): Promise<void> {
    this.#connection.deadline.set(this.#timeouts.body);
    const trailers = request.body.trailers.filter(mayTrail);
    const head = this.#requestHead(request);
    try {
      // A body with trailers goes in chunks.
      if (trailers.length === 0) await this.#connection.writeJoined(head, bytes);
      else {
        const chunk = bytes.length === 0 ? "" : `${bytes.length.toString(16)}\r\n`;
        await this.#connection.writeJoined(head + chunk, bytes, (chunk && "\r\n") + headText("0", trailers));
      }
    } catch {
      return;
    }
    this.#sent = true;
    this.#connection.deadline.set(this.#timeouts.answer);
  }

  #requestHead({ method, target, authority, headers, body, upgrade, trailers }: OutgoingRequest): string {
    const length = body.trailers.some(mayTrail) ? undefined : body.length;
    let more = "";
    if (length === undefined) more += "transfer-encoding: chunked\r\n";
    else if (length > 0 || CARRIES.has(method)) more += `content-length: ${length}\r\n`;
    if (upgrade !== undefined) more += `connection: upgrade\r\nupgrade: ${upgrade}\r\n`;
    else if (trailers) more += "connection: te\r\nte: trailers\r\n";
    const first = `${method} ${target} HTTP/1.1\r\nhost: ${authority}`;
    return headText(first, headers, more);
  }

  async #send(request: OutgoingRequest, body: BodySource): Promise<void> {
    const chunked = body.length === undefined;
    const writer = new BodyWriter(this.#connection, this.#requestHead(request), chunked, this.#timeouts.body);
    try {
      await writer.all(body);
      await writer.end(body.trailers.filter(mayTrail));
    } catch (error) {
      // An upstream that stops reading may have answered before: reading says, or fails as this did.
      if (error instanceof ConnectionLost) return;
      // What has gone out is no whole request, and must not look like one.
      this.#connection.close();
      throw error;
    }
    this.#sent = true;
    this.#connection.deadline.set(this.#timeouts.answer);
  }

  async #read(request: OutgoingRequest): Promise<UpstreamAnswer> {
    for (let interim = 0; interim <= INTERIM_MAX; interim++) {
      let head = this.#head();
      while (!head) {
        if (!await this.#connection.fill()) {
          throw new ConnectionLost(this.answered ? "closed the connection within its head" : CLOSED);
        }
        head = this.#head();
      }
      if (head.status === 101) return this.#upgraded(head, request);
      if (head.status < 200) continue;
      const framing = answerFraming(head, request.method);
      this.#alive = keepsAlive(head) && framing !== "close";
      const body = new WireBody(this.#connection, framing, this.#timeouts.body);
      const declared = headerValue(head.headers, "content-length");
      return {
        status: head.status,
        headers: endToEnd(head.headers),
        body,
        ...(declared !== undefined && { declared }),
      };
    }
    throw new MessageFault("it sends interim answers without end");
  }

  /** The next head, when all of it is here. */
  #head(): AnswerHead | undefined {
    const { waiting } = this.#connection;
    if (waiting.length === 0) return undefined;
    this.answered = true;
    const end = headEnd(waiting);
    if (end > HEAD_MAX || end < 0 && waiting.length > HEAD_MAX) {
      throw new MessageFault("its head is too long");
    }
    if (end < 0) return undefined;
    this.#connection.skip(end);
    return parseAnswerHead(waiting.subarray(0, end));
  }

  #upgraded(head: AnswerHead, { upgrade }: OutgoingRequest): UpstreamAnswer {
    const given = headerValue(head.headers, "upgrade");
    if (upgrade === undefined || given?.toLowerCase() !== upgrade) {
      throw new MessageFault("it changes to a protocol that nobody asked for");
    }
    const body = new WireBody(this.#connection, 0, this.#timeouts.body);
    return { status: 101, headers: endToEnd(head.headers), body, upgraded: this.#connection };
  }
}

const CLOSED = "closed the connection without an answer";
/** Methods whose empty body is said to be empty. */
const CARRIES = new Set(["POST", "PUT", "PATCH"]);

/** Whether a request may go out twice (RFC 9110 §9.2.2). */
export function isIdempotent(method: string): boolean {
  return ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].includes(method);
}

/** Fields that say what an upgrade is; without them there is no handshake. */
export function upgradeOf(headers: readonly Header[]): string | undefined {
  const named = headers.some(([name, value]) =>
    name === "connection" && /(^|[ ,\t])upgrade($|[ ,\t])/i.test(value)
  );
  const protocol = headerValue(headers, "upgrade")?.toLowerCase();
  return named && protocol === "websocket" ? protocol : undefined;
}
