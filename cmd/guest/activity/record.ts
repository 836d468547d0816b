/**
 * Records of the kernel's trace: the pages of its buffer, as `trace_pipe_raw` gives them (Linux:
 * kernel/trace/ring_buffer.c), and the fields of each kind of record.
 */

/** Types of entries that are not records. */
const PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31;
/** Type and thread, which begin every record, in `bytes`. */
const RECORD_MIN = 8;
const HEADER = 16;
/** Longest page, in `bytes`. */
export const PAGE_BYTES = 4096;
/** Bits of the page's length, and the flag of records that were overwritten before it. */
const LENGTH = 0xfffff, MISSED = 0x8000_0000;

/** One record: its type is the id of the event's `format` file. */
export interface TraceRecord {
  type: number;
  /** of the thread that was running */
  pid: number;
  /** in `ns` of the buffer's clock */
  time: bigint;
  data: DataView;
}

interface TracePage {
  records: TraceRecord[];
  /** records were lost before this page */
  missed: boolean;
}

/**
 * Reads a page in its binary form. The text of `trace_pipe` is not safe: an argument with a line break can
 * hold a line that looks like a record of another process.
 */
export function readPage(bytes: Uint8Array): TracePage {
  const page = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let time = page.getBigUint64(0, true);
  const commit = page.getUint32(8, true);
  const end = Math.min(HEADER + (commit & LENGTH), bytes.byteLength);
  const records: TraceRecord[] = [];
  for (let at = HEADER; at + 4 <= end;) {
    const head = page.getUint32(at, true);
    const kind = head & 31, delta = BigInt(head >>> 5);
    if (kind === PADDING && delta === 0n) break;
    const word = kind === 0 || kind >= PADDING ? at + 8 <= end ? page.getUint32(at + 4, true) : 0 : 0;
    if (kind === TIME_EXTEND || kind === TIME_STAMP) {
      const value = (BigInt(word) << 27n) + delta;
      time = kind === TIME_EXTEND ? time + value : value;
      at += 8;
      continue;
    }
    const size = kind === 0 || kind === PADDING ? word + 4 : kind * 4 + 4;
    const start = at + (kind === 0 ? 8 : 4);
    if (start + RECORD_MIN > at + size && kind !== PADDING || size < 8 || at + size > end) break;
    time += delta;
    if (kind !== PADDING) {
      const data = new DataView(bytes.buffer, bytes.byteOffset + start, at + size - start);
      records.push({ type: data.getUint16(0, true), pid: data.getInt32(4, true), time, data });
    }
    at += size;
  }
  return { records, missed: (commit & MISSED) !== 0 };
}

const FIELD = /^\tfield:(.+?)(\w+)(?:\[\d*\])?;\toffset:(\d+);\tsize:(\d+);\tsigned:([01]);$/gm;

interface Field {
  isText: boolean;
  offset: number;
  size: number;
}

const decoder = new TextDecoder();

/** Fields of a kind of trace record, as the kernel describes them in its `format` file. */
export class TraceFormat {
  readonly type: number;
  readonly #fields = new Map<string, Field>();

  /** @param text of `events/<group>/<name>/format` */
  constructor(text: string) {
    this.type = Number(/^ID: (\d+)$/m.exec(text)?.[1]);
    for (const [, kind, name, offset, size] of text.matchAll(FIELD)) {
      this.#fields.set(name, {
        isText: kind.includes("__data_loc"),
        offset: Number(offset),
        size: Number(size),
      });
    }
  }

  number({ data }: TraceRecord, name: string): bigint {
    const { offset, size } = this.#field(name);
    if (size === 2) return BigInt(data.getUint16(offset, true));
    return size === 8 ? data.getBigUint64(offset, true) : BigInt(data.getInt32(offset, true));
  }

  /** @returns undefined where the kernel could not read it */
  text({ data }: TraceRecord, name: string): string | undefined {
    const place = data.getUint32(this.#field(name).offset, true);
    const length = place >>> 16, offset = place & 0xffff;
    // An empty one has its end.
    if (length === 0) return undefined;
    const bytes = new Uint8Array(data.buffer, data.byteOffset + offset, length);
    return decoder.decode(bytes.at(-1) === 0 ? bytes.subarray(0, -1) : bytes);
  }

  #field(name: string): Field {
    const field = this.#fields.get(name);
    if (!field) throw new Error(`the kernel's trace has no field ${name}`);
    return field;
  }
}
