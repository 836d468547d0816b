import { SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { plain } from "../../base/print/mod.ts";
import type { CallOptions, ToolEntry } from "./catalogue.ts";
import { METHODS } from "./local_fetch.ts";
import { tellWaiting } from "./waiting.ts";

/** Access to one path of a host, over HTTPS. */
export interface AccessRequest {
  host: string;
  method: string;
  path: string;
  /** reason of the program, without control characters */
  why: string;
}

/** Asks a person. @param waits called with the ask @returns the outcome, as a sentence for the program */
export type AskAccess = (
  request: AccessRequest,
  signal: AbortSignal,
  waits: (askId: string) => void,
) => Promise<string>;

/** Longest reason, in characters: a person reads it. */
const WHY_MAX = 300;

export const REQUEST_ACCESS: ToolEntry = {
  namespaced_name: "local__request_access",
  title: "Request access",
  description:
    "Asks the user of this VM to allow one method at one path of a host over HTTPS, with any query, headers and body. " +
    "Use it after a request was blocked by policy, and only for what the task needs. It waits for the answer.",
  input_schema: {
    type: "object",
    properties: {
      host: { type: "string", description: "name of the host, without scheme and port" },
      method: { type: "string", enum: METHODS, default: "GET" },
      path: { type: "string", default: "/", description: "path without query" },
      why: { type: "string", maxLength: WHY_MAX, description: "reason, which the user reads" },
    },
    required: ["host", "why"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
};

/** @throws {SbxError} `mcp.arguments.invalid`, and the errors of `ask` */
export async function requestAccess(
  ask: AskAccess,
  args: Record<string, unknown>,
  { signal, progress }: CallOptions,
): Promise<unknown> {
  let answered: (() => void) | undefined;
  try {
    const text = await ask(readRequest(args), signal, (askId) => {
      answered = tellWaiting(askId, progress, () => {});
    });
    return { content: [{ type: "text", text }] };
  } finally {
    answered?.();
  }
}

function readRequest(args: unknown): AccessRequest {
  const { host, method = "GET", path = "/", why } = isObject(args) ? args : {};
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
  return {
    host: host as string,
    method: method as string,
    path: path as string,
    why: plain(why as string).slice(0, WHY_MAX),
  };
}
