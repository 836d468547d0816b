/** DNS packets as this service reads and writes them: `dns-packet` behind the walk of `guard.ts`. */
import { Buffer } from "node:buffer";
import packet from "dns-packet";
import { PacketError, type QuestionShape, type RecordSpan, walkPacket, walkQuestion } from "./guard.ts";
import {
  ERROR_TEXT_MAX,
  NAME_BYTES_MAX,
  QUERY_BYTES_MAX,
  UDP_BYTES_MAX,
  UDP_BYTES_MIN,
  UPSTREAM_UDP_BYTES,
} from "./limit.ts";

/** One question. */
export interface Question {
  /** as it was asked: clients compare the case */
  name: string;
  type: string;
}

/** What a guest asks. */
export interface Query extends Question {
  id: number;
  /** recursion desired, checking disabled: said back as they came */
  flags: number;
  /** bytes that the client takes over UDP */
  udpBytes: number;
}

/** One record of an answer; `data` is what `dns-packet` makes of its type. */
export interface DnsRecord extends Question {
  /** seconds */
  ttl: number;
  // deno-lint-ignore no-explicit-any
  data: any;
}

/** What a resolver answered. */
export interface UpstreamAnswer {
  rcode: Rcode;
  /** it has to be asked for again over TCP */
  truncated: boolean;
  records: DnsRecord[];
  /** seconds for which the SOA says that there is nothing */
  negativeTtl?: number;
  bytes: number;
}

/** Numbers of Extended DNS Errors (RFC 8914). */
export const EDE = { OTHER: 0, BLOCKED: 15, NO_REACHABLE_AUTHORITY: 22, NETWORK_ERROR: 23 } as const;

export const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"] as const;
export type Rcode = typeof RCODES[number];

/**
 * Types that are asked for and passed on; each is one that `dns-packet` reads and writes. HTTPS and SVCB are answered
 * here, with nothing: their `ech` would hide from inspection which host a client means, and clients do without them.
 */
const PASSED = ["A", "AAAA", "CAA", "CNAME", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "TXT"];
const EMPTY: Record<string, string> = { UNKNOWN_64: "SVCB", UNKNOWN_65: "HTTPS" };

/** Whether questions of a type are answered with nothing, and never asked upstream. */
export function isAlwaysEmpty(type: string): boolean {
  return type === "SVCB" || type === "HTTPS";
}

const QUERY_FLAGS = { QR: 1 << 15, OPCODE: 0xf << 11, TC: 1 << 9, RD: 1 << 8, CD: 1 << 4, RCODE: 0xf };
const OPT = 41;
const SOA = 6;
const IN = 1;

/** Reads what a guest asks. @throws {PacketError} on everything but one question of a type that is answered */
export function readQuery(bytes: Uint8Array): Query {
  const shape = walkPacket(bytes, QUERY_BYTES_MAX);
  const { id, flags, answers, authorities, additionals } = shape;
  if (flags & QUERY_FLAGS.QR) throw new PacketError("malformed", "it is an answer, not a query");
  if (flags & QUERY_FLAGS.OPCODE) throw new PacketError("type", "it is no ordinary query");
  if (answers.length + authorities.length > 0) throw new PacketError("malformed", "a query holds no answers");
  const { name, type } = question(bytes, shape);
  const options = additionals.find((record) => record.type === OPT);
  const udpBytes = Math.min(Math.max(options?.class ?? 0, UDP_BYTES_MIN), UDP_BYTES_MAX);
  return { id, flags: flags & (QUERY_FLAGS.RD | QUERY_FLAGS.CD), name, type, udpBytes };
}

function question(bytes: Uint8Array, shape: QuestionShape): Question {
  const name: string = packet.name.decode(view(bytes), shape.question);
  const type: string = packet.question.decode(view(bytes), shape.question).type;
  const known = EMPTY[type] ?? type;
  if (shape.qclass !== IN || !(PASSED.includes(type) || type in EMPTY)) {
    throw new PacketError("type", `questions of type ${known.replace("UNKNOWN_", "")} are not answered here`);
  }
  return { name, type: known };
}

/** The question of a packet that could not be read as a query, as far as there is one; for its answer and its event. */
export function readQuestion(bytes: Uint8Array): Partial<Question> {
  try {
    const shape = walkQuestion(bytes, QUERY_BYTES_MAX);
    const { name, type } = packet.question.decode(view(bytes), shape.question);
    return { name, type: String(type).replace(/^UNKNOWN_/, "TYPE") };
  } catch {
    return {};
  }
}

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

/**
 * Reads a resolver's answer to our question.
 *
 * @returns `undefined` when it answers something else: somebody guesses, or it comes too late
 * @throws {PacketError} when it is ours and cannot be read safely
 */
export function readAnswer(bytes: Uint8Array, id: number, asked: Question): UpstreamAnswer | undefined {
  if (bytes.length < 12 || bytes[0] !== id >> 8 || bytes[1] !== (id & 255)) return undefined;
  const { flags, question, qclass } = walkQuestion(bytes);
  if (!(flags & QUERY_FLAGS.QR)) return undefined;
  const { name, type } = packet.question.decode(view(bytes), question);
  if (!sameName(name, asked.name) || type !== asked.type || qclass !== IN) return undefined;
  const rcode = RCODES[flags & QUERY_FLAGS.RCODE] ?? "SERVFAIL";
  // What is cut off may be cut off anywhere: nothing of it is used.
  if (flags & QUERY_FLAGS.TC) return { rcode, truncated: true, records: [], bytes: bytes.length };
  const shape = walkPacket(bytes);
  const soa = shape.authorities.find((record) => record.type === SOA);
  return {
    rcode,
    truncated: false,
    records: shape.answers.filter((record) => record.class === IN).map((record) => readRecord(bytes, record))
      .filter((record) => record !== undefined),
    // The last word of a SOA, or its own TTL, whichever is shorter (RFC 2308 §5).
    ...(soa && { negativeTtl: Math.min(soa.ttl, view(bytes).readUInt32BE(soa.end - 4)) }),
    bytes: bytes.length,
  };
}

/** @throws {PacketError} when the library reads another length than the walk did */
function readRecord(bytes: Uint8Array, span: RecordSpan): DnsRecord | undefined {
  try {
    const record = packet.answer.decode(view(bytes), span.start);
    if (!PASSED.includes(record.type)) return undefined;
    if (packet.answer.decode.bytes === span.end - span.start) {
      // A TTL with its first bit set counts as zero (RFC 2181 §8).
      return {
        name: record.name,
        type: record.type,
        ttl: span.ttl > 0x7fffffff ? 0 : span.ttl,
        data: record.data,
      };
    }
  } catch {
    // said below
  }
  throw new PacketError("malformed", `a record of type ${span.type} cannot be read`);
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
  const longest = proto === "udp" ? query.udpBytes : 65_535;
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

/** Whether a name, written by a person or a rule, can be asked for. */
export function isName(name: string): boolean {
  const plain = plainName(name);
  return plain.length <= NAME_BYTES_MAX - 2 &&
    /^[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63}(\.[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63})*$/.test(plain);
}

/** The same name, whatever its case and its last dot. */
export function sameName(a: string, b: string): boolean {
  return plainName(a) === plainName(b);
}

/** As events and memories have it: lower case, without the last dot. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
