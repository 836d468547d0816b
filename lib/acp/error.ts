/** Errors of sbx and of the agent as errors of the protocol. */
import { RequestError } from "@agentclientprotocol/sdk";
import { asSbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";

/** JSON-RPC's code of an error that the other side has. */
const INTERNAL = -32603;
/** Most characters of the agent's text in an error. */
const TEXT_MAX = 2000;

/** An error for the editor: what happened, and what to do. */
export function errorOut(error: unknown, action: string): RequestError {
  if (error instanceof RequestError) return error;
  const { code, message, hint } = asSbxError(error, action);
  return new RequestError(INTERNAL, `sbx: ${[message, hint].filter(Boolean).join("; ")}`, { code, hint });
}

/** An error that the agent answered with, for the editor: its text, and none of its data. */
export function agentError({ code, message, data }: RequestError, agent: string): RequestError {
  const details = (data as { details?: unknown } | undefined)?.details;
  const text = typeof details === "string" && details !== message ? `${message}: ${details}` : message;
  return new RequestError(code, `${agent}: ${plain(text.slice(0, TEXT_MAX), true).toWellFormed()}`);
}
