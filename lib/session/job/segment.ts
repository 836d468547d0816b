/**
 * Segments of a job's output: files of records, named by the position of their first byte in the output. A record is one
 * byte for the stream, a u32 big-endian length, and the bytes.
 */
import { join } from "node:path";

export type Stream = "stdout" | "stderr";

/** `bytes` of a record before its content. */
export const HEADER_BYTES = 5;

const STREAMS: readonly Stream[] = ["stdout", "stderr"];
const NAME = /^output-(\d+)$/;

export function segmentPath(dir: string, start: number): string {
  return join(dir, `output-${start}`);
}

/** Positions of the segments in a job's folder, in order; empty for a missing folder. */
export function segmentsOf(dir: string): number[] {
  try {
    const names = Array.from(Deno.readDirSync(dir), ({ name }) => NAME.exec(name)?.[1]);
    return names.filter((start) => start !== undefined).map(Number).sort((a, b) => a - b);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

export function encodeRecord(stream: Stream, bytes: Uint8Array): Uint8Array {
  const record = new Uint8Array(HEADER_BYTES + bytes.length);
  record[0] = STREAMS.indexOf(stream);
  new DataView(record.buffer).setUint32(1, bytes.length);
  record.set(bytes, HEADER_BYTES);
  return record;
}

export function decodeHeader(header: Uint8Array): { stream: Stream; length: number } {
  const length = new DataView(header.buffer, header.byteOffset).getUint32(1);
  return { stream: STREAMS[header[0]] ?? "stdout", length };
}
