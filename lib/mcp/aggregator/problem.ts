/** Failures of a server, as text that is safe for a log, an error and a guest. */
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { foreignText } from "../name.ts";
import { count } from "../../base/text/mod.ts";
import { LOG_LINES_PER_MINUTE } from "../limit.ts";

/** HTTP status of a failed request; `undefined` when it failed in another way. */
export function httpStatus(error: unknown): number | undefined {
  return error instanceof StreamableHTTPError && error.code! > 0 ? error.code : undefined;
}

/** Tests whether a server does not know a method. */
export function isUnknownMethod(error: unknown): boolean {
  return error instanceof McpError && error.code === ErrorCode.MethodNotFound;
}

/** Tests whether a request failed because its connection was closed, for a reason that the error lacks. */
export function isClosed(error: unknown): boolean {
  return error instanceof McpError && error.code === ErrorCode.ConnectionClosed;
}

/** One sentence without a full stop. */
export function problemText(error: unknown): string {
  const status = httpStatus(error);
  const text = error instanceof Error ? error.message : String(error);
  if (status === 401) return "the credential is missing or was rejected (HTTP 401)";
  if (status !== undefined) {
    return `the server answered HTTP ${status}: ${foreignText(text.replace(STATUS_PREFIX, ""))}`;
  }
  if (error instanceof McpError) {
    if (error.code === ErrorCode.ConnectionClosed) return "the connection was closed";
    if (error.code === ErrorCode.RequestTimeout && !TIMEOUT_OF_PEER.test(text)) {
      return "the server did not answer in time";
    }
    return `the server answered error ${error.code}: ${foreignText(text.replace(CODE_PREFIX, ""))}`;
  }
  if (error instanceof SyntaxError || (error as Error)?.name === "ZodError") {
    return "the response is not valid MCP";
  }
  // Reasons from the private wire and the body watches, written by sbx.
  if (error instanceof TypeError || error instanceof DOMException) return foreignText(text);
  return `the server violated MCP: ${foreignText(text)}`;
}

const STATUS_PREFIX = /^Streamable HTTP error: (Error POSTing to endpoint: |Failed to open SSE stream: )?/;
const CODE_PREFIX = /^(MCP error -?\d+: )+/;
const TIMEOUT_OF_PEER = /^MCP error -32001: (?!Request timed out|Error|AbortError|TypeError)/;

export type Log = (line: string) => void;

/**
 * A log that servers cannot flood: a limited number of short, printable lines
 * per minute; the rest is counted.
 */
export function boundedLog(write: Log, now: () => number = Date.now): Log {
  let minute = 0;
  let lines = 0;
  return (line) => {
    const current = Math.floor(now() / 60_000);
    if (current !== minute) {
      const suppressed = lines - LOG_LINES_PER_MINUTE;
      if (suppressed > 0) write(`${count(suppressed, "more line")} suppressed`);
      minute = current;
      lines = 0;
    }
    if (lines++ < LOG_LINES_PER_MINUTE) write(foreignText(line, 500));
  };
}
