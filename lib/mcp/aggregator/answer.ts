/** Answer lines of the aggregator protocol (docs/design/contracts/08-mcp.md §8, "Aggregator errors"). */
import { isDeeper } from "../../base/json/mod.ts";
import { DEPTH_MAX, LINE_BYTES_MAX, PART_CHARS, RESULT_BYTES_MAX } from "../limit.ts";
import { byteLength, fitsLine } from "../ndjson.ts";
import type { AnswerPart } from "../protocol.ts";

/**
 * Answer with a result, or a JSON-RPC error when the result cannot be serialized.
 *
 * @param parts an answer longer than a line is returned whole, for {@linkcode partLines}
 */
export function resultLine(id: number, result: unknown, parts = false): string {
  let line: string;
  try {
    line = JSON.stringify({ id, result });
  } catch {
    return serializationError(id, "the result cannot be serialized as JSON");
  }
  if (isDeeper(line, DEPTH_MAX)) {
    return serializationError(id, `the result is nested deeper than ${DEPTH_MAX} levels`);
  }
  return fitLine(id, line, parts ? RESULT_BYTES_MAX : LINE_BYTES_MAX);
}

/** Replaces a line that is too long by an error. */
export function fitLine(id: number, line: string, max = LINE_BYTES_MAX): string {
  if (fitsLine(line, max)) return line;
  const size = `${byteLength(line)} bytes, and at most ${max} can be passed on`;
  return errorLine(
    id,
    `the result has ${size}: ask the server for less, or let it return a link to a resource`,
  );
}

/** Lines for an answer, each within the limit of a line. */
export function partLines(id: number, line: string): string[] {
  if (fitsLine(line)) return [line];
  const lines: string[] = [];
  for (let at = 0; at < line.length; at += PART_CHARS) {
    const text = line.slice(at, at + PART_CHARS);
    const part: AnswerPart = { id, part: lines.length, text, last: at + PART_CHARS >= line.length };
    lines.push(JSON.stringify(part));
  }
  return lines;
}

export function errorLine(id: number, error: string): string {
  return JSON.stringify({ id, error });
}

function serializationError(id: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
}
