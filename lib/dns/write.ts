/** Packets for guests and resolvers, written by `dns-packet`. */
import { Buffer } from "node:buffer";
import packet from "dns-packet";
import { ANSWER_BYTES_MAX, ERROR_TEXT_MAX, UDP_BYTES_MAX, UPSTREAM_UDP_BYTES } from "./limit.ts";
import { type DnsRecord, EMPTY, type Query, type Question, type Rcode, RCODES } from "./packet.ts";
import { readQuestion } from "./read.ts";

/** A query of our own for a resolver. */
export function writeQuery(id: number, { name, type }: Question): Uint8Array<ArrayBuffer> {
  return packet.encode({
    type: "query",
    id,
    flags: packet.RECURSION_DESIRED,
    questions: [{ name, type, class: "IN" }],
    additionals: [{ type: "OPT", name: ".", udpPayloadSize: UPSTREAM_UDP_BYTES, flags: 0, options: [] }],
  });
}

/** What a guest is answered. */
export interface Reply {
  rcode: Rcode;
  records?: DnsRecord[];
  /** an Extended DNS Error with its one line of text; also for clients that did not ask for one, who skip it */
  error?: { code: number; text: string };
}

/** The bytes of an answer; one that is too long for the client's UDP says so, and the client asks again over TCP. */
export function writeReply(query: Query, reply: Reply, proto: "udp" | "tcp"): Uint8Array<ArrayBuffer> {
  const bytes = encodeReply(query, reply, 0);
  const longest = proto === "udp" ? query.udpBytes : ANSWER_BYTES_MAX;
  if (bytes.length <= longest) return bytes;
  if (proto === "tcp") return encodeReply(query, { rcode: "SERVFAIL" }, 0);
  return encodeReply(query, { rcode: reply.rcode, error: reply.error }, packet.TRUNCATED_RESPONSE);
}

/** The answer to what could not be read: the id is said back, and the question if there is one. */
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
  query: Query,
  { rcode, records = [], error }: Reply,
  flags: number,
): Uint8Array<ArrayBuffer> {
  const { id, name, type } = query;
  const number = Object.keys(EMPTY).find((key) => EMPTY[key] === type) ?? type;
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

/** `limit`, or a little less where that would cut a character in two. */
function cutAt(data: Uint8Array, limit: number): number {
  let at = Math.min(limit, data.length);
  while (at < data.length && (data[at] & 0xc0) === 0x80) at--;
  return at;
}

function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x1f\x7f]+/g, " ");
}
