import { SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import type { CallOptions, ToolEntry } from "./catalogue.ts";

/**
 * Sends one HTTP request as the guest would: with its own event, subject to policy, with credentials added at the
 * boundary. A refusal is an `SbxError`, or a 403 with the decision record.
 */
export type Send = (request: Request) => Promise<Response>;

/** `bytes` of a response body in the result. */
export const FETCH_BODY_MAX = 256 * 1024;
/** Methods that a guest may name. */
export const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export const FETCH_HTTP: ToolEntry = {
  namespaced_name: "local__fetch_http",
  title: "Fetch over HTTP",
  description:
    "Sends one HTTP(S) request from the host, under the same policy as this VM's own traffic, and returns status, headers and body. " +
    `Bodies are cut after ${FETCH_BODY_MAX} bytes (truncated is true then); bytes that are not UTF-8 are returned as body_base64. ` +
    "Redirects are not followed: call again with the URL of the location header.",
  input_schema: {
    type: "object",
    properties: {
      url: { type: "string", description: "http:// or https://" },
      method: { type: "string", enum: METHODS, default: "GET" },
      headers: { type: "object", additionalProperties: { type: "string" } },
      body: { type: "string", description: "text to send" },
    },
    required: ["url"],
    additionalProperties: false,
  },
  output_schema: {
    type: "object",
    properties: {
      status: { type: "integer" },
      headers: { type: "object", additionalProperties: { type: "string" } },
      body: { type: "string" },
      body_base64: { type: "string" },
      truncated: { type: "boolean" },
    },
    required: ["status", "headers", "truncated"],
  },
  annotations: { openWorldHint: true },
};

/** @throws {SbxError} `mcp.arguments.invalid`, and the errors of `send` */
export async function fetchHttp(
  send: Send,
  args: Record<string, unknown>,
  { signal }: CallOptions,
): Promise<unknown> {
  const response = await send(requestOf(args, signal));
  const { bytes, truncated } = await firstBytes(response);
  const answer = {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    ...bodyOf(bytes, truncated),
    truncated,
  };
  return { content: [{ type: "text", text: JSON.stringify(answer) }], structuredContent: answer };
}

function requestOf(args: Record<string, unknown>, signal: AbortSignal): Request {
  const { url, method = "GET", headers = {}, body } = args;
  const parsed = typeof url === "string" ? URL.parse(url) : null;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw invalid('"url" must be an http:// or https:// URL');
  }
  if (!METHODS.includes(method as string)) throw invalid(`"method" must be one of ${METHODS.join(", ")}`);
  if (!isObject(headers)) throw invalid('"headers" must be an object of strings');
  if (body !== undefined && typeof body !== "string") throw invalid('"body" must be a string');
  try {
    return new Request(parsed, {
      method: method as string,
      headers: headers as Record<string, string>,
      body,
      redirect: "manual",
      signal,
    });
  } catch (cause) {
    throw new SbxError("mcp.arguments.invalid", "fetch_http: invalid request", {
      cause,
      hint: "check the names and values of the headers; GET and HEAD have no body",
    });
  }
}

async function firstBytes(response: Response): Promise<{ bytes: Uint8Array; truncated: boolean }> {
  const bytes = new Uint8Array(FETCH_BODY_MAX);
  let size = 0;
  for await (const chunk of response.body ?? []) {
    const fits = chunk.subarray(0, FETCH_BODY_MAX - size);
    bytes.set(fits, size);
    size += fits.length;
    if (fits.length < chunk.length) return { bytes, truncated: true };
  }
  return { bytes: bytes.subarray(0, size), truncated: false };
}

function bodyOf(bytes: Uint8Array, truncated: boolean): { body: string } | { body_base64: string } {
  try {
    // A character that was cut in two is dropped.
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: truncated }) };
  } catch {
    return { body_base64: bytes.toBase64() };
  }
}

function invalid(problem: string): SbxError {
  return new SbxError("mcp.arguments.invalid", `fetch_http: ${problem}`);
}
