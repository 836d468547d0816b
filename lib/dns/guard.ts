/**
 * Walks a DNS packet before any library reads it: every count, length and pointer is checked against the bytes that
 * are there, in one pass and without following anything forward (RFC 1035 §4.1).
 */
import { ANSWER_BYTES_MAX, CHAIN_MAX, NAME_BYTES_MAX, RECORDS_MAX } from "./limit.ts";

/** A packet that cannot be read safely; `guard` names what is wrong with it, the message says it to people. */
export class PacketError extends Error {
  override name = "PacketError";

  constructor(readonly guard: "malformed" | "name" | "questions" | "type" | "too-large", message: string) {
    super(message);
  }
}

/** One record as the walk found it: offsets into the packet. */
export interface RecordSpan {
  start: number;
  end: number;
  type: number;
  class: number;
  ttl: number;
  /** of its data; it ends where the record does */
  data: number;
}

/** A packet's header and question. */
export interface QuestionShape {
  id: number;
  flags: number;
  /** offset of the one question, and of what follows it */
  question: number;
  questionEnd: number;
  qclass: number;
}

/** What a packet is made of. */
export interface PacketShape extends QuestionShape {
  answers: RecordSpan[];
  authorities: RecordSpan[];
  additionals: RecordSpan[];
}

const HEADER_BYTES = 12;

/** Numbers of the types whose data the walk looks into. */
const TYPE = { A: 1, NS: 2, CNAME: 5, SOA: 6, PTR: 12, MX: 15, TXT: 16, AAAA: 28, SRV: 33 };

/** Reads the header and the one question, and nothing behind it. @throws {PacketError} */
export function walkQuestion(bytes: Uint8Array, longest = ANSWER_BYTES_MAX): QuestionShape {
  if (bytes.length > longest) {
    throw new PacketError("too-large", `it has ${bytes.length} bytes, over ${longest}`);
  }
  if (bytes.length < HEADER_BYTES) throw malformed("its header is cut off");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const questions = view.getUint16(4);
  if (questions !== 1) throw new PacketError("questions", `it asks ${questions} questions, not one`);
  const questionEnd = skipName(bytes, HEADER_BYTES) + 4;
  if (questionEnd > bytes.length) throw malformed("its question is cut off");
  return {
    id: view.getUint16(0),
    flags: view.getUint16(2),
    question: HEADER_BYTES,
    questionEnd,
    qclass: view.getUint16(questionEnd - 2),
  };
}

/** @throws {PacketError} on anything that is not one question with the records that its counts promise */
export function walkPacket(bytes: Uint8Array, longest = ANSWER_BYTES_MAX): PacketShape {
  const shape = walkQuestion(bytes, longest);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const counts = [6, 8, 10].map((at) => view.getUint16(at));
  if (counts[0] + counts[1] + counts[2] > RECORDS_MAX) {
    throw malformed(`it promises more than ${RECORDS_MAX} records`);
  }
  let at = shape.questionEnd;
  const [answers, authorities, additionals] = counts.map((count) => {
    const records: RecordSpan[] = [];
    for (let left = count; left > 0; left--) {
      const record = walkRecord(bytes, view, at);
      records.push(record);
      at = record.end;
    }
    return records;
  });
  if (at !== bytes.length) throw malformed("bytes follow its last record");
  return { ...shape, answers, authorities, additionals };
}

function walkRecord(bytes: Uint8Array, view: DataView, start: number): RecordSpan {
  const fixed = skipName(bytes, start);
  const data = fixed + 10;
  if (data > bytes.length) throw malformed("a record is cut off");
  const type = view.getUint16(fixed);
  const end = data + view.getUint16(fixed + 8);
  if (end > bytes.length) throw malformed("a record's data is longer than the packet");
  if (!fits(bytes, type, data, end)) {
    throw malformed(`the data of a record of type ${type} is not what it should be`);
  }
  return { start, end, type, class: view.getUint16(fixed + 2), ttl: view.getUint32(fixed + 4), data };
}

/** Whether a record's data is exactly as long as its type says. */
function fits(bytes: Uint8Array, type: number, data: number, end: number): boolean {
  const nameAt = (at: number) => at < end ? skipName(bytes, at) : -1;
  switch (type) {
    case TYPE.A:
      return end - data === 4;
    case TYPE.AAAA:
      return end - data === 16;
    case TYPE.NS:
    case TYPE.CNAME:
    case TYPE.PTR:
      return nameAt(data) === end;
    case TYPE.MX:
      return nameAt(data + 2) === end;
    case TYPE.SRV:
      return nameAt(data + 6) === end;
    case TYPE.SOA: {
      const mailbox = nameAt(data);
      // The first label of a mailbox may hold dots.
      return mailbox > 0 && mailbox < end && skipName(bytes, mailbox, true) + 20 === end;
    }
    case TYPE.TXT: {
      let at = data;
      while (at < end) at += 1 + bytes[at];
      return at === end && end > data;
    }
    default:
      return true;
  }
}

/**
 * Where a name that starts at `at` ends. Pointers lead only to before what was read so far, so they cannot loop. Labels
 * are printable ASCII without dots and backslashes: what libraries write names with would mistake anything else.
 */
function skipName(bytes: Uint8Array, at: number, dots = false): number {
  let end = -1;
  let before = at;
  let length = 1;
  for (let jumps = 0;;) {
    const size = bytes[at];
    if (size === undefined) throw malformed("a name is cut off");
    if (size === 0) return end < 0 ? at + 1 : end;
    if (size >= 0xc0) {
      if (at + 1 >= bytes.length) throw malformed("a pointer is cut off");
      const target = (size & 0x3f) << 8 | bytes[at + 1];
      if (target >= before || target < HEADER_BYTES) {
        throw malformed("a pointer does not lead back to a name");
      }
      if (++jumps > CHAIN_MAX) throw malformed("a name has too many pointers");
      if (end < 0) end = at + 2;
      at = before = target;
      continue;
    }
    if (size > 63) throw malformed("a label has a length that does not exist");
    length += size + 1;
    if (length > NAME_BYTES_MAX) throw malformed("a name is longer than 255 bytes");
    if (at + size >= bytes.length) throw malformed("a label is cut off");
    for (let i = at + 1; i <= at + size; i++) {
      const byte = bytes[i];
      const plain = byte > 0x20 && byte < 0x7f && byte !== 0x5c && (byte !== 0x2e || dots);
      if (!plain) throw new PacketError("name", "a name has characters in it that no host name has");
    }
    at += size + 1;
  }
}

function malformed(what: string): PacketError {
  return new PacketError("malformed", what);
}
