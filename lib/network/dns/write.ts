/** Encodes packets for guests and resolvers with `dns-packet`. */
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { ANSWER_BYTES_MAX, ERROR_TEXT_MAX, RESOLVER_UDP_BYTES, UDP_BYTES_MAX } from "./limit.ts";
import {
  type DnsQuery,
  type DnsQuestion,
  type DnsRecord,
  EMPTY_TYPES,
  type Rcode,
  RCODES,
} from "./packet.ts";
import { readQuestion } from "./read.ts";

/** Encodes a query for a resolver. */
export function writeQuery(id: number, { name, type }: DnsQuestion): Uint8Array<ArrayBuffer> {
  return packet.encode({
    type: "query",
    id,
    flags: packet.RECURSION_DESIRED,
    questions: [{ name, type, class: "IN" }],
    additionals: [{ type: "OPT", name: ".", udpPayloadSize: RESOLVER_UDP_BYTES, flags: 0, options: [] }],
  });
}

/** Answer to a query of the guest. */
export interface DnsReply {
  rcode: Rcode;
  records?: DnsRecord[];
  /** Extended DNS Error with one line of text; clients that did not request it ignore it */
  error?: { code: number; text: string };
}

/** Encodes an answer. One too long for the client's UDP is truncated, and the client repeats its query over TCP. */
export function writeReply(query: DnsQuery, reply: DnsReply, proto: "udp" | "tcp"): Uint8Array<ArrayBuffer> {
  const bytes = encodeReply(query, reply, 0);
  const longest = proto === "udp" ? query.udpBytes : ANSWER_BYTES_MAX;
  if (bytes.length <= longest) return bytes;
  if (proto === "tcp") return encodeReply(query, { rcode: "SERVFAIL" }, 0);
  return encodeReply(query, { rcode: reply.rcode, error: reply.error }, packet.TRUNCATED_RESPONSE);
}

/** Encodes an empty answer that makes the client ask again over TCP. */
export function writeReferral(query: DnsQuery): Uint8Array<ArrayBuffer> {
  return encodeReply(query, { rcode: "NOERROR" }, packet.TRUNCATED_RESPONSE);
}

/** Encodes the answer to an unreadable query, with its id and, if readable, its question. */
export function writeRefusal(
  bytes: Uint8Array,
  rcode: Rcode,
  text: string,
  code: number,
): Uint8Array<ArrayBuffer> {
  const id = bytes.length >= 2 ? bytes[0] << 8 | bytes[1] : 0;
  const { name, type = "" } = readQuestion(bytes);
  const query = { id, flags: 0, name: name ?? "", type: type.replace(/^TYPE/, "UNKNOWN_"), udpBytes: 0 };
  return encodeReply(query, { rcode, error: { code, text } }, 0);
}

function encodeReply(
  query: DnsQuery,
  { rcode, records = [], error }: DnsReply,
  flags: number,
): Uint8Array<ArrayBuffer> {
  const { id, name, type } = query;
  const number = Object.keys(EMPTY_TYPES).find((key) => EMPTY_TYPES[key] === type) ?? type;
  return packet.encode({
    type: "response",
    id,
    flags: query.flags | packet.RECURSION_AVAILABLE | flags | RCODES.indexOf(rcode),
    questions: name === "" ? [] : [{ name, type: number, class: "IN" }],
    answers: records.map((record) => ({ ...record, class: "IN" })),
    additionals: error ? [extendedError(error)] : [],
  });
}

function extendedError({ code, text }: { code: number; text: string }) {
  const data = Buffer.from(`\0${String.fromCharCode(code)}${oneLine(text)}`);
  const options = [{ code: 15, data: data.subarray(0, cutAt(data, ERROR_TEXT_MAX + 2)) }];
  return { type: "OPT", name: ".", udpPayloadSize: UDP_BYTES_MAX, flags: 0, options };
}

/** Largest cut up to `limit` that splits no character. */
function cutAt(data: Uint8Array, limit: number): number {
  let at = Math.min(limit, data.length);
  while (at < data.length && (data[at] & 0xc0) === 0x80) at--;
  return at;
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x1f\x7f]+/g, " ");
}
