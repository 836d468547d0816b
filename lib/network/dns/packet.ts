/** Decodes and encodes DNS packets with `dns-packet`, after the checks of `guard.ts`. */
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { parseAddress, plainHost } from "../../base/address/mod.ts";
import { memoize } from "../../base/memo/mod.ts";
import {
  ANSWER_BYTES_MAX,
  ERROR_TEXT_MAX,
  NAME_BYTES_MAX,
  QUERY_BYTES_MAX,
  RESOLVER_UDP_BYTES,
  UDP_BYTES_MAX,
  UDP_BYTES_MIN,
} from "./limit.ts";
import { PacketError, type QuestionShape, type RecordSpan, walkPacket, walkQuestion } from "./guard.ts";

/** A DNS question. */
export interface DnsQuestion {
  /** spelled as in the query: clients compare its case */
  name: string;
  type: string;
}

/** A query of the guest. */
interface DnsQuery extends DnsQuestion {
  id: number;
  /** recursion desired, checking disabled: copied to the answer */
  flags: number;
  /** longest UDP answer that the client accepts, in `bytes` */
  udpBytes: number;
}

/** A record of an answer. */
export interface DnsRecord extends DnsQuestion {
  /** in `s` */
  ttl: number;
  /** value, in the form that `dns-packet` has for records of this type */
  // deno-lint-ignore no-explicit-any -- dns-packet gives each type of record another form
  data: any;
}

/** Answer of a resolver. */
export interface ResolverAnswer {
  rcode: Rcode;
  /** true: the query must be repeated over TCP */
  truncated: boolean;
  records: DnsRecord[];
  /** TTL of a missing name or type, from the SOA, in `s` */
  negativeTtl?: number;
  /** length of the packet */
  bytes: number;
}

/** Numbers of Extended DNS Errors (RFC 8914). */
export const EDE = { OTHER: 0, BLOCKED: 15, NO_REACHABLE_AUTHORITY: 22, NETWORK_ERROR: 23 } as const;

const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"] as const;
export type Rcode = typeof RCODES[number];

/**
 * Types that are resolved and relayed; `dns-packet` supports each of them. HTTPS and SVCB get empty answers:
 * their `ech` would hide the client's host from inspection, and clients work without them.
 */
const SUPPORTED_TYPES = ["A", "AAAA", "CAA", "CNAME", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "TXT"];
/** Types with empty answers, by the names that `dns-packet` has for them. */
const EMPTY_TYPES: Record<string, string> = { UNKNOWN_64: "SVCB", UNKNOWN_65: "HTTPS" };

/** True for types that get empty answers, without a query to a resolver. */
export function isAlwaysEmpty(type: string): boolean {
  return type === "SVCB" || type === "HTTPS";
}

/** True for names that can be queried. Names may come from a person or a rule. */
export function isName(name: string): boolean {
  const plain = plainHost(name);
  return plain.length <= NAME_BYTES_MAX - 2 &&
    /^[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63}(\.[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63})*$/.test(plain);
}

/** Bits in the second field of the header (RFC 1035 §4.1.1, RFC 4035 §3.2). */
const HEADER_FLAGS = { QR: 1 << 15, OPCODE: 0xf << 11, TC: 1 << 9, RD: 1 << 8, CD: 1 << 4, RCODE: 0xf };
const OPT = 41;
const SOA = 6;
const IN = 1;

/** Decodes a guest's query. @throws {PacketError} for anything but one question of a supported type */
export function readQuery(bytes: Uint8Array): DnsQuery {
  const shape = walkPacket(bytes, QUERY_BYTES_MAX);
  const { id, flags, answers, authorities, additionals } = shape;
  if (flags & HEADER_FLAGS.QR) throw new PacketError("malformed", "an answer instead of a query");
  if (flags & HEADER_FLAGS.OPCODE) throw new PacketError("type", "an unsupported opcode");
  if (answers.length + authorities.length > 0) throw new PacketError("malformed", "answers in a query");
  const { name, type } = decodeQuestion(bytes, shape);
  const options = additionals.find((record) => record.type === OPT);
  const udpBytes = Math.min(Math.max(options?.class ?? 0, UDP_BYTES_MIN), UDP_BYTES_MAX);
  return { id, flags: flags & (HEADER_FLAGS.RD | HEADER_FLAGS.CD), name, type, udpBytes };
}

function decodeQuestion(bytes: Uint8Array, shape: QuestionShape): DnsQuestion {
  const name: string = packet.name.decode(view(bytes), shape.question);
  const type: string = packet.question.decode(view(bytes), shape.question).type;
  const typeName = EMPTY_TYPES[type] ?? type;
  if (shape.qclass !== IN || !(SUPPORTED_TYPES.includes(type) || type in EMPTY_TYPES)) {
    throw new PacketError("type", `queries of type ${typeName.replace("UNKNOWN_", "")} are not supported`);
  }
  return { name, type: typeName };
}

/** Decodes the question of an invalid query, as far as possible, for its answer and its event. */
export function readQuestion(bytes: Uint8Array): Partial<DnsQuestion> {
  try {
    const shape = walkQuestion(bytes, QUERY_BYTES_MAX);
    const { name, type } = packet.question.decode(view(bytes), shape.question);
    return { name, type: String(type).replace(/^UNKNOWN_/, "TYPE") };
  } catch {
    return {};
  }
}

/**
 * Decodes a resolver's answer.
 *
 * @returns `undefined` for an answer to another question, which is forged or late
 * @throws {PacketError} the answer is to this question, but cannot be read safely
 */
export function readAnswer(bytes: Uint8Array, id: number, expected: DnsQuestion): ResolverAnswer | undefined {
  if (bytes.length < 12 || bytes[0] !== id >> 8 || bytes[1] !== (id & 255)) return undefined;
  const { flags, question, qclass } = walkQuestion(bytes);
  if (!(flags & HEADER_FLAGS.QR)) return undefined;
  const { name, type } = packet.question.decode(view(bytes), question);
  if (!sameName(name, expected.name) || type !== expected.type || qclass !== IN) return undefined;
  const rcode = RCODES[flags & HEADER_FLAGS.RCODE] ?? "SERVFAIL";
  // A packet may be cut in the middle of a record, so no record of a truncated answer is used.
  if (flags & HEADER_FLAGS.TC) return { rcode, truncated: true, records: [], bytes: bytes.length };
  const shape = walkPacket(bytes);
  const soa = shape.authorities.find((record) => record.type === SOA);
  return {
    rcode,
    truncated: false,
    records: shape.answers.filter((record) => record.class === IN).map((record) => readRecord(bytes, record))
      .filter((record) => record !== undefined),
    // The minimum field of the SOA or its TTL, whichever is shorter (RFC 2308 §5).
    ...(soa && { negativeTtl: Math.min(soa.ttl, view(bytes).readUInt32BE(soa.end - 4)) }),
    bytes: bytes.length,
  };
}

/**
 * @returns `undefined` for a record of an unsupported type
 * @throws {PacketError} the library fails, or decodes another length than `guard.ts` checked
 */
function readRecord(bytes: Uint8Array, span: RecordSpan): DnsRecord | undefined {
  try {
    const record = packet.answer.decode(view(bytes), span.start);
    if (!SUPPORTED_TYPES.includes(record.type)) return undefined;
    if (packet.answer.decode.bytes === span.end - span.start) {
      // A TTL with its top bit set counts as zero (RFC 2181 §8).
      return {
        name: record.name,
        type: record.type,
        ttl: span.ttl > 0x7fffffff ? 0 : span.ttl,
        data: record.data,
      };
    }
  } catch {
    // The library's errors do not name the record; the one below does.
  }
  throw new PacketError("malformed", `an unreadable record of type ${span.type}`);
}

/** Compares names without case and last dot. */
function sameName(a: string, b: string): boolean {
  return a === b || plainHost(a) === plainHost(b);
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

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

/** Encodes an answer. An answer too long for UDP is truncated; the client repeats its query over TCP. */
export function writeReply(query: DnsQuery, reply: DnsReply, proto: "udp" | "tcp"): Uint8Array<ArrayBuffer> {
  const bytes = encodeReply(query, reply, 0);
  const longest = proto === "udp" ? query.udpBytes : ANSWER_BYTES_MAX;
  if (bytes.length <= longest) return bytes;
  if (proto === "tcp") return encodeReply(query, { rcode: "SERVFAIL" }, 0);
  return encodeReply(query, { rcode: reply.rcode, error: reply.error }, packet.TRUNCATED_RESPONSE);
}

/** Encodes an empty, truncated answer, which makes the client repeat its query over TCP. */
export function writeTruncated(query: DnsQuery): Uint8Array<ArrayBuffer> {
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

function encodeReply(query: DnsQuery, reply: DnsReply, flags: number): Uint8Array<ArrayBuffer> {
  const { rcode, records = [], error } = reply;
  const { id, name, type } = query;
  const addresses = encodeAddresses(query, reply, flags);
  if (addresses) return addresses;
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

/**
 * Bytes of the header, of a record without its data, and the reference to the name of
 * the question (RFC 1035 §4.1.4).
 */
const HEADER_BYTES = 12, RECORD_BYTES = 12, QUESTION_NAME = 0xc00c;
const ADDRESS_TYPES: Record<string, { number: number; bytes: number }> = {
  A: { number: 1, bytes: 4 },
  AAAA: { number: 28, bytes: 16 },
};

/**
 * Encodes an answer that has only addresses of the question's name, as most have. The library takes longer
 * for one than all checks of a query together.
 *
 * @returns `undefined` for any other answer
 */
function encodeAddresses(
  { id, flags, name, type }: DnsQuery,
  { rcode, records, error }: DnsReply,
  extra: number,
): Uint8Array<ArrayBuffer> | undefined {
  const address = ADDRESS_TYPES[type];
  if (!address || !records?.length || error || name.endsWith(".")) return undefined;
  const question = HEADER_BYTES + name.length + 2;
  const bytes = new Uint8Array(question + 4 + records.length * (RECORD_BYTES + address.bytes));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, id);
  view.setUint16(2, HEADER_FLAGS.QR | flags | packet.RECURSION_AVAILABLE | extra | RCODES.indexOf(rcode));
  view.setUint16(4, 1);
  view.setUint16(6, records.length);
  let at = HEADER_BYTES;
  for (const label of name.split(".")) {
    bytes[at++] = label.length;
    for (let unit = 0; unit < label.length; unit++) bytes[at++] = label.charCodeAt(unit);
  }
  view.setUint16(question, address.number);
  view.setUint16(question + 2, IN);
  at = question + 4;
  for (const record of records) {
    const data = record.type === type && sameName(record.name, name) && addressOf(record.data);
    if (!data || data.length !== address.bytes) return undefined;
    view.setUint16(at, QUESTION_NAME);
    view.setUint16(at + 2, address.number);
    view.setUint16(at + 4, IN);
    view.setUint32(at + 6, record.ttl);
    view.setUint16(at + 10, address.bytes);
    bytes.set(data, at + RECORD_BYTES);
    at += RECORD_BYTES + address.bytes;
  }
  return bytes;
}

/** Bytes of an address, remembered: every answer from the cache repeats its addresses. */
const addressOf = memoize(parseAddress);

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
