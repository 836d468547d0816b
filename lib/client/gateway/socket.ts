/**
 * WebSockets through the gateway: `/terminal/{id}`, `/program/{id}` and `/events`
 * (docs/design/contracts/02-http.md §2).
 */
import { SbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { pathMatcher } from "./route.ts";
import type { Upstream } from "./upstream.ts";

/** `bytes` buffered for a slow reader before its socket is closed. */
export const UNREAD_MAX = 16 * 1024 * 1024;
/** `ms` for the service to accept a socket. */
const OPEN_TIMEOUT_MS = timeLimit(10_000);
/** Close code of a socket whose other side disconnected without a close code. */
const GONE = 4502;
/** Close code of a socket whose reader was too slow. */
const TOO_SLOW = 4508;

const isTerminal = pathMatcher("/terminal/{id}");
const isProgram = pathMatcher("/program/{id}");

/** Tests whether a path is a WebSocket, whose token may be in the query. */
export function isSocketPath(path: string): boolean {
  return path === "/events" || isTerminal(path) || isProgram(path);
}

/**
 * Opens the same socket at the service, then accepts the client's upgrade and copies messages both ways.
 *
 * @param protocol subprotocol to accept
 * @throws {SbxError} `request.invalid`: not a WebSocket upgrade; `service.unreachable`
 */
export async function proxySocket(
  request: Request,
  target: string,
  client: Deno.HttpClient,
  upstream: Upstream,
  protocol?: string,
): Promise<Response> {
  if (request.method !== "GET" || request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    throw new SbxError("request.invalid", `${target.split("?")[0]} accepts WebSocket requests only`, {
      hint: "connect with a WebSocket client",
    });
  }
  const trace = request.headers.get("traceparent");
  const headers = trace === null ? undefined : { traceparent: trace };
  const service = new WebSocket(`ws://service${target}`, { client, headers });
  service.binaryType = "arraybuffer";
  const early: MessageEvent["data"][] = [];
  service.onmessage = ({ data }) => early.push(data);
  let earlyClose: CloseEvent | undefined;
  service.addEventListener("close", (event) => earlyClose = event);
  if (!(await waitForOpen(service))) return await fetchRefusal(target, upstream);

  let upgrade;
  try {
    upgrade = Deno.upgradeWebSocket(request, { protocol });
  } catch (cause) {
    service.close();
    throw new SbxError("request.invalid", "incomplete WebSocket handshake", {
      cause,
      hint: "send Sec-WebSocket-Key and Sec-WebSocket-Version: 13",
    });
  }
  upgrade.socket.binaryType = "arraybuffer";
  upgrade.socket.onopen = () => {
    for (const data of early.splice(0)) upgrade.socket.send(data);
    // The service may have closed already: closing a socket that is not open yet leaves its client waiting.
    if (earlyClose) return close(upgrade.socket, earlyClose.code, earlyClose.reason);
    copy(service, upgrade.socket);
    copy(upgrade.socket, service);
  };
  upgrade.socket.onerror = () => close(service, GONE, "");
  return upgrade.response;
}

function copy(from: WebSocket, to: WebSocket): void {
  from.onmessage = ({ data }) => {
    if (to.readyState !== WebSocket.OPEN) return;
    to.send(data);
    if (to.bufferedAmount <= UNREAD_MAX) return;
    close(from, TOO_SLOW, "too slow");
    close(to, TOO_SLOW, "too slow");
  };
  from.onclose = ({ code, reason }) => close(to, code, reason);
  from.onerror = () => close(to, GONE, "");
}

/**
 * Closes with the received code if this side may send it (RFC 6455 §7.4); a client may
 * send fewer codes than a server.
 */
function close(socket: WebSocket, code: number, reason: string): void {
  const isUnrestricted = code === 1000 || (code >= 3000 && code <= 4999);
  const isServerCode = socket.url === "" && code >= 1001 && code <= 1014 &&
    ![1004, 1005, 1006].includes(code);
  if (isUnrestricted || isServerCode) socket.close(code, reason);
  else socket.close(code === 1005 ? 1000 : GONE);
}

/** @returns false when the socket fails or does not open in time */
function waitForOpen(socket: WebSocket): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      socket.close();
      resolve(false);
    }, OPEN_TIMEOUT_MS);
    const end = (open: boolean) => () => {
      clearTimeout(timer);
      resolve(open);
    };
    socket.onopen = end(true);
    socket.onclose = socket.onerror = end(false);
  });
}

/**
 * Repeats a failed upgrade as a plain request: its response has the reason,
 * which a WebSocket does not report.
 */
async function fetchRefusal(target: string, upstream: Upstream): Promise<Response> {
  const { status, headers, body } = await upstream.send({
    method: "GET",
    target,
    headers: [
      ["connection", "Upgrade"],
      ["upgrade", "websocket"],
      ["sec-websocket-version", "13"],
      ["sec-websocket-key", btoa(crypto.randomUUID().slice(0, 16))],
    ],
  });
  if (status >= 400) {
    const type = headers.find(([name]) => name === "content-type")?.[1] ?? "application/octet-stream";
    return new Response(body, { status, headers: { "content-type": type } });
  }
  if (body instanceof ReadableStream) await body.cancel();
  throw new SbxError("service.unreachable", "the service did not open the WebSocket", { hint: "try again" });
}
