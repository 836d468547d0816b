/**
 * Built-in server `local` in the host process (docs/design/contracts/08-mcp.md §8, "Built-in server"); policy
 * applies to its tools too.
 */
import { asSbxError, guestErrorBody, SbxError } from "../../base/error/mod.ts";
import { LOCAL } from "../definition.ts";
import type { CallOptions, Catalogue, ToolEntry, ToolServer } from "./catalogue.ts";
import { isObject } from "../../base/object/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { reportWaiting } from "./perform.ts";

const PREFIX = `${LOCAL}__`;

/** A tool of the built-in server that another part of the session provides. */
export interface LocalTool {
  /** its name begins with `local__` */
  entry: ToolEntry;
  run: Tool;
  /** false: it is in no list, for it would fail; absent: always true */
  isOffered?(): boolean;
}

type Tool = (args: Record<string, unknown>, options: CallOptions) => Promise<unknown> | unknown;

export class LocalServer implements ToolServer {
  /** false once corp or the profile disables it; then it has no tools */
  isEnabled = true;
  readonly #tools: Map<string, LocalTool>;

  /**
   * @param send sends HTTP requests as the guest does, with its policy and events;
   * without it there is no `fetch_http`
   * @param ask asks a person for access; without it there is no `request_access`
   * @param tools of other parts of the session
   */
  constructor({ send, ask, tools = [] }: { send?: Send; ask?: AskAccess; tools?: LocalTool[] } = {}) {
    this.#tools = new Map<string, LocalTool>([
      [ECHO.namespaced_name, { entry: ECHO, run: echo }],
      ...(send
        ? [[FETCH_HTTP.namespaced_name, {
          entry: FETCH_HTTP,
          run: (args: Record<string, unknown>, options: CallOptions) => fetchHttp(send, args, options),
        }]] as const
        : []),
      ...(ask
        ? [[REQUEST_ACCESS.namespaced_name, {
          entry: REQUEST_ACCESS,
          run: (args: Record<string, unknown>, options: CallOptions) => requestAccess(ask, args, options),
        }]] as const
        : []),
      ...tools.map((tool) => [tool.entry.namespaced_name, tool] as const),
    ]);
  }

  listTools(): Promise<ToolEntry[]> {
    return Promise.resolve(
      this.isEnabled
        ? [...this.#tools.values()].filter((tool) => tool.isOffered?.() ?? true).map(({ entry }) => entry)
        : [],
    );
  }

  /**
   * Calls a tool; a failure of the tool is a result with `isError`, as MCP requires.
   *
   * @throws {SbxError} `mcp.tool.not_found`
   */
  async callTool(name: string, args: Record<string, unknown>, options: CallOptions): Promise<unknown> {
    if (!this.isEnabled) {
      throw new SbxError(
        "mcp.tool.not_found",
        `the server ${LOCAL} is disabled in this VM, by corp or the profile`,
      );
    }
    const tool = this.#tools.get(name);
    if (!tool) throw new SbxError("mcp.tool.not_found", `the server ${LOCAL} has no tool "${name}"`);
    try {
      return await tool.run(args, options);
    } catch (error) {
      options.signal.throwIfAborted();
      const { error: message, hint } = guestErrorBody(asSbxError(error, name));
      const text = hint ? `${message}\n${hint}` : message;
      return { isError: true, content: [{ type: "text", text }] };
    }
  }
}

/** A catalogue with the built-in server in front; names `local__*` belong to it alone. */
export function withLocal(catalogue: Catalogue, local: ToolServer): Catalogue {
  return {
    async listTools(options) {
      const [builtin, external] = await Promise.all([local.listTools(options), catalogue.listTools(options)]);
      return [...builtin, ...external.filter(({ namespaced_name }) => !namespaced_name.startsWith(PREFIX))];
    },
    callTool: (name, args, options) =>
      (name.startsWith(PREFIX) ? local : catalogue).callTool(name, args, options),
    listResources: (options) => catalogue.listResources(options),
    listResourceTemplates: (options) => catalogue.listResourceTemplates?.(options) ?? Promise.resolve([]),
    listPrompts: (options) => catalogue.listPrompts(options),
    readResource: (uri, options) => catalogue.readResource(uri, options),
    getPrompt: (name, args, options) => catalogue.getPrompt(name, args, options),
    complete: catalogue.complete?.bind(catalogue),
    subscribe: catalogue.subscribe?.bind(catalogue),
    unsubscribe: catalogue.unsubscribe?.bind(catalogue),
    answerRequests: catalogue.answerRequests?.bind(catalogue),
    watchNotices: catalogue.watchNotices?.bind(catalogue),
    watch: (changed) => catalogue.watch?.(changed) ?? (() => {}),
  };
}

const ECHO: ToolEntry = {
  namespaced_name: "local__echo",
  title: "Echo",
  description: "Returns the given text. Use it to check whether MCP works in this VM.",
  input_schema: {
    type: "object",
    properties: { text: { type: "string", description: "text to return" } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/** @throws {SbxError} `mcp.arguments.invalid` */
function echo({ text }: Record<string, unknown>): unknown {
  if (typeof text !== "string") {
    throw new SbxError("mcp.arguments.invalid", 'echo: "text" must be a string');
  }
  return { content: [{ type: "text", text }] };
}

/**
 * Sends one HTTP request as the guest would: with its own event, subject to policy, with credentials added at
 * the boundary. A refusal is an `SbxError`, or a 403 with the decision record.
 */
export type Send = (request: Request) => Promise<Response>;

/** `bytes` of a response body in the result. */
const FETCH_BODY_MAX = 256 * 1024;
/** Methods that a guest may name. */
export const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

const FETCH_HTTP: ToolEntry = {
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
async function fetchHttp(
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

/** Access to one path of a host, over HTTPS. */
export interface AccessRequest {
  host: string;
  method: string;
  path: string;
  /** reason of the program, without control characters */
  why: string;
  /** the question is about every request to the host */
  host_access?: boolean;
}

/** The outcome of a request for access that was not refused. */
export interface AccessAnswer {
  /** on_request: its rule asks about each request; waiting: no one has answered yet */
  status: "allowed" | "on_request" | "waiting";
  /** as a sentence for the program */
  text: string;
  /** absent: no person was asked */
  ask_id?: string;
}

/** Asks a person. @param waits called with the ask */
export type AskAccess = (
  request: AccessRequest,
  signal: AbortSignal,
  waits: (askId: string) => void,
) => Promise<AccessAnswer>;

/** Longest reason, in characters: a person reads it. */
const WHY_MAX = 300;

const REQUEST_ACCESS: ToolEntry = {
  namespaced_name: "local__request_access",
  title: "Request access",
  description:
    "Asks the user of this VM to allow one method at one path of a host over HTTPS, with any query, headers and body. " +
    "Use it after a request was blocked by policy, or waits for approval, and only if the task needs it. It waits for " +
    "the answer; a question without one stays open, and the same call waits for it again.",
  input_schema: {
    type: "object",
    properties: {
      host: { type: "string", description: "name of the host, without scheme and port" },
      method: { type: "string", enum: METHODS, default: "GET" },
      path: { type: "string", default: "/", description: "path without query" },
      host_access: {
        type: "boolean",
        default: false,
        description: "ask for every request to the host, with any method and path",
      },
      why: { type: "string", maxLength: WHY_MAX, description: "reason, which the user reads" },
    },
    required: ["host", "why"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
};

/** @throws {SbxError} `mcp.arguments.invalid`, and the errors of `ask` */
async function requestAccess(
  ask: AskAccess,
  args: Record<string, unknown>,
  { signal, progress }: CallOptions,
): Promise<unknown> {
  let answered: (() => void) | undefined;
  try {
    const answer = await ask(readRequest(args), signal, (askId) => {
      answered = reportWaiting(askId, progress, () => {});
    });
    return { content: [{ type: "text", text: answer.text }], structuredContent: answer };
  } finally {
    answered?.();
  }
}

function readRequest(args: unknown): AccessRequest {
  const { host, method = "GET", path = "/", why, host_access = false } = isObject(args) ? args : {};
  for (const [name, value] of Object.entries({ host, method, path, why })) {
    if (typeof value !== "string" || value === "") {
      throw new SbxError("mcp.arguments.invalid", `request_access: "${name}" must be a text`);
    }
  }
  if (!METHODS.includes(method as string)) {
    throw new SbxError(
      "mcp.arguments.invalid",
      `request_access: "method" must be one of ${METHODS.join(", ")}`,
    );
  }
  if (typeof host_access !== "boolean") {
    throw new SbxError("mcp.arguments.invalid", 'request_access: "host_access" must be true or false');
  }
  return {
    host: host as string,
    ...host_access && { host_access },
    method: method as string,
    path: path as string,
    why: plain(why as string).slice(0, WHY_MAX),
  };
}
