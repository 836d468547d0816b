/** Lines that answer requests (spec.md, "Aggregator protocol", "Errors"). */
import { DEPTH_MAX } from "../limit.ts";
import { fitsLine } from "../ndjson.ts";

/** The answer with a result; one that cannot be written as such is the spec's serialization failure. */
export function resultLine(id: number, result: unknown): string {
  let line: string;
  try {
    line = JSON.stringify({ id, result });
  } catch {
    return unserializable(id, "the result cannot be written as JSON");
  }
  if (isDeeper(line, DEPTH_MAX)) {
    return unserializable(id, `the result is nested deeper than ${DEPTH_MAX} levels`);
  }
  return fitting(id, line);
}

/** A line as it is, or an error in its place when it is too long. */
export function fitting(id: number, line: string): string {
  return fitsLine(line) ? line : errorLine(id, "the result is too large for one line of the protocol");
}

export function errorLine(id: number, error: string): string {
  return JSON.stringify({ id, error });
}

/** Whether JSON is nested beyond `max`: what walks through it afterwards does so on a stack. */
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

/** Where the string that begins at `from` ends. */
function endOfString(json: string, from: number): number {
  for (let end = json.indexOf('"', from + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let escapes = 0;
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}

function unserializable(id: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
}
