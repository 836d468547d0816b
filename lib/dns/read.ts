/** Packets of guests and resolvers, read by `dns-packet` after the walk of `guard.ts`. */
import { Buffer } from "node:buffer";
import packet from "dns-packet";
import { PacketError, type QuestionShape, type RecordSpan, walkPacket, walkQuestion } from "./guard.ts";
import { QUERY_BYTES_MAX, UDP_BYTES_MAX, UDP_BYTES_MIN } from "./limit.ts";
import {
  type DnsRecord,
  EMPTY,
  PASSED,
  type Query,
  type Question,
  RCODES,
  sameName,
  type UpstreamAnswer,
} from "./packet.ts";

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

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
