/** HTTP client of the gateway, with this page's session. A call to an unknown route does not compile. */
import type { Answer, Body, Method, Params, PathOf, Query, RouteAt } from "../../../lib/client/api/schema.ts";
import { filled } from "./address.ts";
import { forgetProof, proveGateway, sessionKey, StrangerError } from "./sign_in.ts";

/** Error of the API: what happened, and what to do next. */
export class ApiError extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly hint?: string) {
    super(message);
  }
}

/**
 * Sends a request; its answer has a 2xx status.
 *
 * @throws {ApiError} the error of the API; `offline`; `stranger`: another program has the
 * gateway's port, and was sent nothing
 */
export async function send(method: string, path: string, json?: unknown, body?: BodyInit): Promise<Response> {
  // A body may be a key that a person typed: the last proof is not enough.
  if (json !== undefined || body !== undefined) forgetProof();
  await requireGateway();
  const headers = new Headers({ "x-sbx-desktop": sessionKey() ?? "" });
  if (json !== undefined) headers.set("content-type", "application/json");
  let response: Response;
  try {
    response = await fetch(path, { method, headers, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    forgetProof();
    throw offline();
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new ApiError(
    response.status,
    String(answer.code),
    String(answer.error ?? response.statusText),
    answer.hint,
  );
}

/** Asks for the JSON of a route without a body. */
export async function ask<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  params: Params<P>,
  query?: Query<RouteAt<M, P>>,
): Promise<Answer<RouteAt<M, P>>> {
  return await (await send(method, filled(path, params, query))).json();
}

/** Sends JSON to a route. @returns the JSON of its answer */
export async function submit<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  params: Params<P>,
  body: Body<RouteAt<M, P>>,
  query?: Query<RouteAt<M, P>>,
): Promise<Answer<RouteAt<M, P>>> {
  return await (await send(method, filled(path, params, query), body)).json();
}

/**
 * Opens a WebSocket of the API; its key is a subprotocol, since pages cannot set headers of sockets.
 *
 * @throws {ApiError} `offline`, `stranger`
 */
export async function openSocket(path: string): Promise<WebSocket> {
  await requireGateway();
  return new WebSocket(`ws://${location.host}${path}`, `sbx.desktop.${sessionKey()}`);
}

/**
 * Loads a part of the page, whose code comes from the gateway too.
 * @throws {ApiError} `offline`, `stranger`
 */
export async function loadPart<T>(load: () => Promise<T>): Promise<T> {
  await requireGateway();
  return await load();
}

async function requireGateway(): Promise<void> {
  try {
    await proveGateway();
  } catch (error) {
    if (!(error instanceof StrangerError)) throw offline();
    throw new ApiError(401, "stranger", error.message, "run sbx desktop to sign in again");
  }
}

function offline(): ApiError {
  return new ApiError(0, "offline", "sbx does not answer", "start it with sbx start");
}
