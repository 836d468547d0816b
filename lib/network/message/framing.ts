/** Body framing of HTTP/1.1 messages (RFC 9112 §6); ambiguous framing is refused. */
import { MessageFault } from "../fault.ts";
import type { RequestHead, ResponseHead } from "./head.ts";
import type { Header } from "./header.ts";

/** A length in `bytes`, `chunked`, or until the connection closes. */
export type BodyFraming = number | "chunked" | "close";

/** @throws {MessageFault} for two framings, two lengths, and codings other than `chunked` */
export function requestFraming({ headers, old }: RequestHead): BodyFraming {
  const { length, isChunked, lengths } = readFramingFields(headers);
  if (lengths > 1) throw new MessageFault("more than one content-length header");
  if (!isChunked) return length ?? 0;
  if (length !== undefined) throw new MessageFault("both content-length and transfer-encoding");
  if (old) throw new MessageFault("transfer-encoding in HTTP/1.0");
  return "chunked";
}

/** @throws {MessageFault} for two framings, lengths that differ, and codings other than `chunked` */
export function responseFraming({ status, headers, old }: ResponseHead, method: string): BodyFraming {
  const { length, isChunked } = readFramingFields(headers);
  if (isChunked && length !== undefined) throw new MessageFault("both content-length and transfer-encoding");
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return 0;
  if (isChunked && old) throw new MessageFault("transfer-encoding in HTTP/1.0");
  return isChunked ? "chunked" : length ?? "close";
}

function readFramingFields(headers: readonly Header[]) {
  let length: number | undefined;
  let lengths = 0;
  let isChunked = false;
  for (const [name, value] of headers) {
    if (name === "content-length") {
      const parsed = /^[0-9]{1,15}$/.test(value) ? Number(value) : NaN;
      if (Number.isNaN(parsed)) throw new MessageFault("content-length is not a number");
      if (length !== undefined && length !== parsed) {
        throw new MessageFault("conflicting content-length values");
      }
      length = parsed;
      lengths++;
    } else if (name === "transfer-encoding") {
      if (isChunked || value.toLowerCase() !== "chunked") {
        throw new MessageFault("a transfer coding other than chunked");
      }
      isChunked = true;
    }
  }
  return { length, lengths, isChunked };
}

/** True when the connection stays open after a message. */
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
