/** Decodes packets of guests and resolvers with `dns-packet`, after the checks of `guard.ts`. */
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { PacketError, type QuestionShape, type RecordSpan, walkPacket, walkQuestion } from "./guard.ts";
import { QUERY_BYTES_MAX, UDP_BYTES_MAX, UDP_BYTES_MIN } from "./limit.ts";
import {
  type DnsQuery,
  type DnsQuestion,
  type DnsRecord,
  EMPTY_TYPES,
  RCODES,
  type ResolverAnswer,
  sameName,
  SUPPORTED_TYPES,
} from "./packet.ts";

const QUERY_FLAGS = { QR: 1 << 15, OPCODE: 0xf << 11, TC: 1 << 9, RD: 1 << 8, CD: 1 << 4, RCODE: 0xf };
const OPT = 41;
const SOA = 6;
const IN = 1;

/** Decodes a query. @throws {PacketError} for anything but one question of a supported type */
export function readQuery(bytes: Uint8Array): DnsQuery {
  const shape = walkPacket(bytes, QUERY_BYTES_MAX);
  const { id, flags, answers, authorities, additionals } = shape;
  if (flags & QUERY_FLAGS.QR) throw new PacketError("malformed", "an answer instead of a query");
  if (flags & QUERY_FLAGS.OPCODE) throw new PacketError("type", "an unsupported opcode");
  if (answers.length + authorities.length > 0) throw new PacketError("malformed", "answers in a query");
  const { name, type } = decodeQuestion(bytes, shape);
  const options = additionals.find((record) => record.type === OPT);
  const udpBytes = Math.min(Math.max(options?.class ?? 0, UDP_BYTES_MIN), UDP_BYTES_MAX);
  return { id, flags: flags & (QUERY_FLAGS.RD | QUERY_FLAGS.CD), name, type, udpBytes };
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
 * @returns `undefined` for an answer to another question: it is forged, or late
 * @throws {PacketError} the answer matches, and cannot be read safely
 */
export function readAnswer(bytes: Uint8Array, id: number, expected: DnsQuestion): ResolverAnswer | undefined {
  if (bytes.length < 12 || bytes[0] !== id >> 8 || bytes[1] !== (id & 255)) return undefined;
  const { flags, question, qclass } = walkQuestion(bytes);
  if (!(flags & QUERY_FLAGS.QR)) return undefined;
  const { name, type } = packet.question.decode(view(bytes), question);
  if (!sameName(name, expected.name) || type !== expected.type || qclass !== IN) return undefined;
  const rcode = RCODES[flags & QUERY_FLAGS.RCODE] ?? "SERVFAIL";
  // Truncated anywhere: none of its records is used.
  if (flags & QUERY_FLAGS.TC) return { rcode, truncated: true, records: [], bytes: bytes.length };
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

/** @throws {PacketError} the library decodes another length than `guard.ts` checked */
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
    // thrown below
  }
  throw new PacketError("malformed", `an unreadable record of type ${span.type}`);
}

function view(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
