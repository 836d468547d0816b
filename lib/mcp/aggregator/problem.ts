/** What went wrong with a server, in words that a log, an error and a guest may see. */
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { foreignText } from "../text.ts";

/** HTTP status of a failed request; undefined when it failed in another way. */
export function httpStatus(error: unknown): number | undefined {
  return error instanceof StreamableHTTPError && error.code! > 0 ? error.code : undefined;
}

/** One sentence without a full stop. */
export function problemText(error: unknown): string {
  const status = httpStatus(error);
  const text = error instanceof Error ? error.message : String(error);
  if (status === 401) return "it refused the credential, or wants one (HTTP 401)";
  if (status !== undefined) {
    return `it answered HTTP ${status}: ${foreignText(text.replace(STATUS_PREFIX, ""))}`;
  }
  if (error instanceof McpError) {
    if (error.code === ErrorCode.ConnectionClosed) return "the connection to it was closed";
    if (error.code === ErrorCode.RequestTimeout && !TIMEOUT_OF_PEER.test(text)) {
      return "it did not answer in time";
    }
    return `it answered error ${error.code}: ${foreignText(text.replace(CODE_PREFIX, ""))}`;
  }
  if (error instanceof SyntaxError || (error as Error)?.name === "ZodError") {
    return "its answer is not valid MCP";
  }
  // The exchange's own reasons are words of ours.
  if (error instanceof TypeError || error instanceof DOMException) return foreignText(text);
  return `it did not keep to MCP: ${foreignText(text)}`;
}

const STATUS_PREFIX = /^Streamable HTTP error: (Error POSTing to endpoint: |Failed to open SSE stream: )?/;
const CODE_PREFIX = /^(MCP error -?\d+: )+/;
const TIMEOUT_OF_PEER = /^MCP error -32001: (?!Request timed out|Error|AbortError|TypeError)/;
