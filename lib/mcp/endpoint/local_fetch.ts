import { SbxError } from "../../base/error/mod.ts";
import type { CallOptions, ToolEntry } from "./catalogue.ts";
import { isObject } from "./rpc.ts";

/**
 * Sends one HTTP request as if the guest had: it is an event of its own, policy decides on it, credentials are put in
 * at the boundary. A refusal comes as an `SbxError` or as a 403 that carries the decision record.
 */
export type Send = (request: Request) => Promise<Response>;

/** Bytes of a body that are answered. */
export const FETCH_BODY_MAX = 256 * 1024;
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export const FETCH_HTTP: ToolEntry = {
  namespaced_name: "local__fetch_http",
  title: "Fetch over HTTP",
  description:
    "Sends one HTTP(S) request from the host, under the same policy as this VM's own traffic, and answers with status, headers and body. " +
    `Bodies are cut after ${FETCH_BODY_MAX} bytes (truncated says so); bytes that are no UTF-8 come as body_base64. ` +
    "Redirects are not followed: call again with the answer's location header.",
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

/** @throws SbxError `mcp.arguments.invalid`, and what `send` throws */
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
  if (!parsed || !/^https?:$/.test(parsed.protocol)) throw invalid('"url" is an http:// or https:// URL');
  if (!METHODS.includes(method as string)) throw invalid(`"method" is one of ${METHODS.join(", ")}`);
  if (!isObject(headers)) throw invalid('"headers" is an object of text');
  if (body !== undefined && typeof body !== "string") throw invalid('"body" is text');
  try {
    return new Request(parsed, {
      method: method as string,
      headers: headers as Record<string, string>,
      body,
      redirect: "manual",
      signal,
    });
  } catch (cause) {
    throw new SbxError("mcp.arguments.invalid", "fetch_http cannot send such a request", {
      cause,
      hint: "look at the names and values of its headers; GET and HEAD have no body",
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
    // A cut may have gone through a character, which is then left out.
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: truncated }) };
  } catch {
    return { body_base64: bytes.toBase64() };
  }
}

function invalid(what: string): SbxError {
  return new SbxError("mcp.arguments.invalid", `fetch_http: ${what}`);
}
