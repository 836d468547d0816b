/** Records of one page of the kernel's trace buffer, as `trace_pipe_raw` gives it (Linux: kernel/trace/ring_buffer.c). */

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

export interface TracePage {
  records: TraceRecord[];
  /** records were lost before this page */
  missed: boolean;
}

/**
 * Reads a page in its binary form. The text of `trace_pipe` is not safe: an argument with a line break can hold a line
 * that looks like a record of another process.
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
