/** One HTTP server for E2B's control API, the envd of each sandbox, and the ports of sandboxes. */
import { Code, ConnectError } from "@connectrpc/connect";
import { timingSafeEqual } from "@std/crypto";
import { asSbxError, SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { log } from "../../../lib/base/log/mod.ts";
import type { Port } from "../../../lib/client/api/mod.ts";
import type { TokenGate } from "../../../lib/client/gateway/mod.ts";
import { controlApi, failure } from "./control.ts";
import type { Envd } from "./envd.ts";
import { KERNEL_PORT } from "./kernel/contexts.ts";
import type { Sandboxes } from "./sandboxes.ts";
import { type Sandbox, trafficToken } from "./store.ts";

/** Port of envd in a sandbox, as E2B's client names it. */
const ENVD_PORT = 49983;

/** Statuses of codes that only this server has. */
const STATUSES: Record<string, number> = {
  "sandbox.not_found": 404,
  "sandbox.paused": 502,
  "request.unsupported": 501,
  "e2b.off": 403,
  "e2b.too_many": 429,
  // The client shows the text of 404 alone.
  "kernel.missing": 404,
  "kernel.not_found": 404,
  "guest.failed": 502,
};

/** @throws {SbxError} `request.invalid`: its URL has the host that the client named, whatever that is */
function requireUrl({ url }: Request): void {
  if (!URL.canParse(url)) throw new SbxError("request.invalid", "the request has no valid host");
}

/** The sandbox and port that a request is for. */
interface Target {
  sandbox: string;
  port: number;
}

/** Makes the handler of all requests. */
export function e2bHandler(
  sandboxes: Sandboxes,
  gate: TokenGate,
  http: Deno.HttpClient,
): (request: Request) => Promise<Response> {
  const control = controlApi(sandboxes, gate);
  control.onError((error) => errorResponse(error));
  return async (request) => {
    try {
      requireUrl(request);
      const target = targetOf(request);
      const signed = target ? undefined : await signedSandbox(sandboxes, request);
      if (!target && !signed) return await control.fetch(request);
      const sandbox = signed ?? await admitted(sandboxes, target!, request);
      const awake = await sandboxes.awake(sandbox);
      if (!target || target.port === ENVD_PORT) {
        return await serveEnvd(sandboxes, awake, request, { isSigned: signed !== undefined });
      }
      if (target.port === KERNEL_PORT) {
        return await (await runningEnvd(sandboxes, awake)).contexts.fetch(request);
      }
      return await forward(sandboxes, awake, target.port, request, http);
    } catch (error) {
      return errorResponse(error, { isOfSandbox: true });
    }
  };
}

/** The sandbox that the headers or the host name of a request name. */
function targetOf({ headers }: Request): Target | undefined {
  const id = headers.get("e2b-sandbox-id");
  if (id !== null) return { sandbox: id, port: Number(headers.get("e2b-sandbox-port") ?? ENVD_PORT) };
  const [, port, sandbox] = /^(\d{1,5})-([a-z0-9]+)\./.exec(headers.get("host") ?? "") ?? [];
  return sandbox === undefined ? undefined : { sandbox, port: Number(port) };
}

/** @throws {SbxError} `sandbox.not_found`, `auth.bad_token` */
async function admitted(
  sandboxes: Sandboxes,
  { sandbox: id, port }: Target,
  { headers }: Request,
): Promise<Sandbox> {
  const sandbox = sandboxes.find(id);
  const [token, traffic] = ["x-access-token", "e2b-traffic-access-token"].map((name) =>
    headers.get(name) ?? ""
  );
  if (isSame(token, sandbox.token)) return sandbox;
  // The token of ports is for no program or file.
  if (port !== ENVD_PORT && isSame(traffic, await trafficToken(sandbox))) return sandbox;
  throw new SbxError("auth.bad_token", "invalid access token of the sandbox");
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [a, b].map((text) => new TextEncoder().encode(text));
  return left.length === right.length && timingSafeEqual(left, right);
}

/** The sandbox of a URL for one file, whose signature has its token (E2B's `uploadUrl` and `downloadUrl`). */
async function signedSandbox(sandboxes: Sandboxes, { url, method }: Request): Promise<Sandbox | undefined> {
  const { pathname, searchParams } = new URL(url);
  const signature = searchParams.get("signature");
  if (pathname !== "/files" || signature === null) return undefined;
  const operation = method === "GET" ? "read" : "write";
  const expiry = searchParams.get("signature_expiration");
  if (expiry !== null && !(Number(expiry) * 1000 > Date.now())) return undefined;
  const [path, user] = ["path", "username"].map((name) => searchParams.get(name) ?? "");
  for (const sandbox of sandboxes.store.all()) {
    const parts = [path, operation, user, sandbox.token, ...expiry === null ? [] : [expiry]];
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(parts.join(":")));
    const expected = "v1_" + new Uint8Array(digest).toBase64().replace(/=+$/, "");
    if (isSame(signature, expected)) return sandbox;
  }
  return undefined;
}

async function serveEnvd(
  sandboxes: Sandboxes,
  sandbox: Sandbox,
  request: Request,
  how: { isSigned: boolean },
): Promise<Response> {
  return await (await runningEnvd(sandboxes, sandbox)).fetch(request, how);
}

/** @throws {SbxError} `sandbox.paused` */
async function runningEnvd(sandboxes: Sandboxes, sandbox: Sandbox): Promise<Envd> {
  const envd = sandboxes.envd(sandbox);
  const status = await envd.guest.status();
  if (status === "Running" || status === "Booting") return envd;
  throw new SbxError("sandbox.paused", `the VM of sandbox ${sandbox.id} is ${status}`);
}

/** Last HTTP status. */
const STATUS_MAX = 599;
/** Headers of one connection. */
const HOP = ["connection", "host", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer"];
/** Secrets of the sandbox, which its programs do not get. */
const SECRETS = [
  "x-access-token",
  "e2b-traffic-access-token",
  "x-api-key",
  "e2b-sandbox-id",
  "e2b-sandbox-port",
];

/** Sends a request to a port of the guest. */
async function forward(
  sandboxes: Sandboxes,
  sandbox: Sandbox,
  port: number,
  request: Request,
  client: Deno.HttpClient,
): Promise<Response> {
  const { guest } = sandboxes.envd(sandbox);
  const json = { guest_port: port };
  const { host_port } = await guest.client.json<Port>("POST", `${guest.path}/ports`, { json });
  const { pathname, search } = new URL(request.url);
  const headers = new Headers(request.headers);
  for (const name of [...HOP, ...SECRETS]) headers.delete(name);
  // As it comes: the answer's encoding is the client's business.
  headers.set("accept-encoding", "identity");
  let answer: Response;
  try {
    answer = await fetch(`http://127.0.0.1:${host_port}${pathname}${search}`, {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: request.signal,
      client,
    });
  } catch (cause) {
    throw new SbxError("guest.failed", `port ${port} of sandbox ${sandbox.id} does not answer`, { cause });
  }
  if (answer.status > STATUS_MAX) {
    await answer.body?.cancel();
    throw new SbxError("guest.failed", `port ${port} of sandbox ${sandbox.id} answered ${answer.status}`);
  }
  const shown = new Headers(answer.headers);
  for (const name of HOP) shown.delete(name);
  return new Response(answer.body, { status: answer.status, headers: shown });
}

/** Statuses of errors of Connect in answers of plain HTTP. */
const CONNECT_STATUSES: Partial<Record<Code, number>> = {
  [Code.InvalidArgument]: 400,
  [Code.Unauthenticated]: 401,
  [Code.PermissionDenied]: 403,
  [Code.NotFound]: 404,
};

function errorResponse(cause: unknown, { isOfSandbox = false } = {}): Response {
  if (cause instanceof ConnectError) {
    const status = CONNECT_STATUSES[cause.code] ?? 502;
    return Response.json(failure(status, cause.rawMessage), { status });
  }
  const error = asSbxError(cause, "a request of an E2B client");
  if (error.code === "internal") log.error(error.message, error.cause);
  // E2B's client takes 502 of a sandbox for its end.
  const isEnd = isOfSandbox && ["sandbox.not_found", "vm.not_found", "vm.wrong_state"].includes(error.code);
  const status = isEnd ? 502 : STATUSES[error.code] ?? statusOf(error.code);
  const message = error.hint === undefined ? error.message : `${error.message}; ${error.hint}`;
  return Response.json(failure(status, message), { status });
}
