/** Answer lines of the aggregator protocol (docs/contracts.md §8, "Aggregator errors"). */
import { DEPTH_MAX } from "../limit.ts";
import { fitsLine } from "../ndjson.ts";

/** Answer with a result, or a JSON-RPC error when the result cannot be serialized. */
export function resultLine(id: number, result: unknown): string {
  let line: string;
  try {
    line = JSON.stringify({ id, result });
  } catch {
    return serializationError(id, "the result cannot be serialized as JSON");
  }
  if (isDeeper(line, DEPTH_MAX)) {
    return serializationError(id, `the result is nested deeper than ${DEPTH_MAX} levels`);
  }
  return fitLine(id, line);
}

/** Replaces a line that is too long by an error. */
export function fitLine(id: number, line: string): string {
  return fitsLine(line) ? line : errorLine(id, "the result is too large for one line of the protocol");
}

export function errorLine(id: number, error: string): string {
  return JSON.stringify({ id, error });
}

/** Tests whether JSON is nested deeper than `max` levels; recursive readers would overflow the stack. */
export function isDeeper(json: string, max: number): boolean {
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at);
    else if (unit === BRACKET || unit === BRACE) {
      if (++depth > max) return true;
    } else if (unit === BRACKET + 2 || unit === BRACE + 2) depth--;
  }
  return false;
}

const QUOTE = 34;
const BACKSLASH = 92;
const BRACKET = 91;
const BRACE = 123;

/** Index of the closing quote of the string that begins at `from`. */
function endOfString(json: string, from: number): number {
  for (let end = json.indexOf('"', from + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let escapes = 0;
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}

function serializationError(id: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
}
