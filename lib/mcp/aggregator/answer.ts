/** Answer lines of the aggregator protocol (docs/contracts.md §8, "Aggregator errors"). */
import { isDeeper } from "../../base/json/mod.ts";
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

function serializationError(id: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });
}
