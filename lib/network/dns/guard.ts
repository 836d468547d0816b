/**
 * Checks DNS packets before a library parses them: one pass checks every count, length and pointer against
 * the packet's bytes, and no pointer leads forward (RFC 1035 §4.1).
 */
import { ANSWER_BYTES_MAX, CHAIN_MAX, NAME_BYTES_MAX, RECORDS_MAX } from "./limit.ts";

/**
 * A packet that cannot be read safely; `guard` is the fault's part of the rule
 * id, the message its description.
 */
export class PacketError extends Error {
  override name = "PacketError";

  constructor(readonly guard: "malformed" | "name" | "questions" | "type" | "too-large", message: string) {
    super(message);
  }
}

/** Offsets and header fields of one record. */
export interface RecordSpan {
  start: number;
  end: number;
  type: number;
  class: number;
  ttl: number;
  /** offset of its data, which ends with the record */
  data: number;
}

/** A packet's header and question. */
export interface QuestionShape {
  id: number;
  flags: number;
  /** offsets of the one question and behind it */
  question: number;
  questionEnd: number;
  qclass: number;
}

/** Header, question and records of a packet. */
export interface PacketShape extends QuestionShape {
  answers: RecordSpan[];
  authorities: RecordSpan[];
  additionals: RecordSpan[];
}

const HEADER_BYTES = 12;

/** Numbers of the record types whose data is checked. */
const TYPE = { A: 1, NS: 2, CNAME: 5, SOA: 6, PTR: 12, MX: 15, TXT: 16, AAAA: 28, SRV: 33 };

/** Checks the header and the one question only. @throws {PacketError} */
export function walkQuestion(bytes: Uint8Array, longest = ANSWER_BYTES_MAX): QuestionShape {
  if (bytes.length > longest) {
    throw new PacketError("too-large", `${bytes.length} bytes, more than ${longest}`);
  }
  if (bytes.length < HEADER_BYTES) throw malformed("a truncated header");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const questions = view.getUint16(4);
  if (questions !== 1) throw new PacketError("questions", `${questions} questions instead of one`);
  const questionEnd = skipName(bytes, HEADER_BYTES) + 4;
  if (questionEnd > bytes.length) throw malformed("a truncated question");
  return {
    id: view.getUint16(0),
    flags: view.getUint16(2),
    question: HEADER_BYTES,
    questionEnd,
    qclass: view.getUint16(questionEnd - 2),
  };
}

/** @throws {PacketError} for anything but one question and the declared number of valid records */
export function walkPacket(bytes: Uint8Array, longest = ANSWER_BYTES_MAX): PacketShape {
  const shape = walkQuestion(bytes, longest);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const counts = [6, 8, 10].map((at) => view.getUint16(at));
  if (counts[0] + counts[1] + counts[2] > RECORDS_MAX) {
    throw malformed(`more than ${RECORDS_MAX} records`);
  }
  let at = shape.questionEnd;
  const [answers, authorities, additionals] = counts.map((count) => {
    const records: RecordSpan[] = [];
    for (let remaining = count; remaining > 0; remaining--) {
      const record = walkRecord(bytes, view, at);
      records.push(record);
      at = record.end;
    }
    return records;
  });
  if (at !== bytes.length) throw malformed("bytes after the last record");
  return { ...shape, answers, authorities, additionals };
}

function walkRecord(bytes: Uint8Array, view: DataView, start: number): RecordSpan {
  const fixed = skipName(bytes, start);
  const data = fixed + 10;
  if (data > bytes.length) throw malformed("a truncated record");
  const type = view.getUint16(fixed);
  const end = data + view.getUint16(fixed + 8);
  if (end > bytes.length) throw malformed("a record longer than the packet");
  if (!hasValidData(bytes, type, data, end)) {
    throw malformed(`invalid data in a record of type ${type}`);
  }
  return { start, end, type, class: view.getUint16(fixed + 2), ttl: view.getUint32(fixed + 4), data };
}

/** True when the data of a record has exactly the length of its type. */
function hasValidData(bytes: Uint8Array, type: number, data: number, end: number): boolean {
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
 * Finds the end of the name at `at`. Pointers lead backwards only, so they cannot loop. Labels are printable
 * ASCII without backslashes: libraries would misread other characters in names.
 *
 * @param mayHaveDots allows dots in labels
 */
function skipName(bytes: Uint8Array, at: number, mayHaveDots = false): number {
  let end = -1;
  let before = at;
  let length = 1;
  for (let jumps = 0;;) {
    const size = bytes[at];
    if (size === undefined) throw malformed("a truncated name");
    if (size === 0) return end < 0 ? at + 1 : end;
    if (size >= 0xc0) {
      if (at + 1 >= bytes.length) throw malformed("a truncated pointer");
      const target = (size & 0x3f) << 8 | bytes[at + 1];
      if (target >= before || target < HEADER_BYTES) {
        throw malformed("a pointer that does not lead back to a name");
      }
      if (++jumps > CHAIN_MAX) throw malformed("too many pointers in a name");
      if (end < 0) end = at + 2;
      at = before = target;
      continue;
    }
    if (size > 63) throw malformed("an invalid label length");
    length += size + 1;
    if (length > NAME_BYTES_MAX) throw malformed("a name longer than 255 bytes");
    if (at + size >= bytes.length) throw malformed("a truncated label");
    for (let i = at + 1; i <= at + size; i++) {
      const byte = bytes[i];
      const isPlain = byte > 0x20 && byte < 0x7f && byte !== 0x5c && (byte !== 0x2e || mayHaveDots);
      if (!isPlain) throw new PacketError("name", "invalid characters in a name");
    }
    at += size + 1;
  }
}

function malformed(reason: string): PacketError {
  return new PacketError("malformed", reason);
}
