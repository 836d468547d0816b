/** Where the body of an HTTP/1.1 message ends (RFC 9112 §6), and no two opinions on it. */
import { MessageFault } from "../fault.ts";
import type { AnswerHead, RequestHead } from "./head.ts";
import type { Header } from "./header.ts";

/** A length in bytes, `chunked`, or until the connection is closed. */
export type Framing = number | "chunked" | "close";

/** @throws {MessageFault} for two framings, two lengths, and codings other than `chunked` */
export function requestFraming({ headers, old }: RequestHead): Framing {
  const { length, coded, lengths } = framingFields(headers);
  if (lengths > 1) throw new MessageFault("it names its length more than once");
  if (!coded) return length ?? 0;
  if (length !== undefined) throw new MessageFault("it has both a length and a transfer coding");
  if (old) throw new MessageFault("it is HTTP/1.0 and has a transfer coding");
  return "chunked";
}

/** @throws {MessageFault} for two framings, lengths that differ, and codings other than `chunked` */
export function answerFraming({ status, headers, old }: AnswerHead, method: string): Framing {
  const { length, coded } = framingFields(headers);
  if (coded && length !== undefined) throw new MessageFault("it has both a length and a transfer coding");
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return 0;
  if (coded && old) throw new MessageFault("it is HTTP/1.0 and has a transfer coding");
  return coded ? "chunked" : length ?? "close";
}

function framingFields(headers: readonly Header[]) {
  let length: number | undefined;
  let lengths = 0;
  let coded = false;
  for (const [name, value] of headers) {
    if (name === "content-length") {
      const given = /^[0-9]{1,15}$/.test(value) ? Number(value) : NaN;
      if (Number.isNaN(given)) throw new MessageFault("its length is no number");
      if (length !== undefined && length !== given) throw new MessageFault("it names two lengths");
      length = given;
      lengths++;
    } else if (name === "transfer-encoding") {
      if (coded || value.toLowerCase() !== "chunked") {
        throw new MessageFault("it has a transfer coding other than chunked");
      }
      coded = true;
    }
  }
  return { length, lengths, coded };
}

/** Whether the connection stays open behind a message. */
export function keepsAlive({ headers, old }: { headers: readonly Header[]; old: boolean }): boolean {
  let alive = !old;
  for (const [name, value] of headers) {
    if (name !== "connection") continue;
    const options = value.toLowerCase();
    if (/(^|[ ,\t])close($|[ ,\t])/.test(options)) return false;
    if (old && options.includes("keep-alive")) alive = true;
  }
  return alive;
}
