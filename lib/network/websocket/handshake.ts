/** Opening handshake of WebSockets (RFC 6455 §4). */
import { createHash } from "node:crypto";
import { MessageFault } from "../fault.ts";
import type { RequestHead } from "../message/head.ts";
import { type Header, headerValue } from "../message/header.ts";

/** Appended to the key of a client by RFC 6455 §1.3. */
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** 16 bytes in base64. */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/;

/**
 * Requested protocol of an upgrade; only WebSocket is supported, any other is answered without an upgrade.
 *
 * @throws {MessageFault} for a request that names WebSocket and is not a handshake: what
 * follows could be read differently
 */
export function upgradeOf({ method, old, headers }: RequestHead, hasBody: boolean): string | undefined {
  const isNamed = headers.some(([name, value]) =>
    name === "connection" && /(^|[ ,\t])upgrade($|[ ,\t])/i.test(value)
  );
  const protocol = headerValue(headers, "upgrade")?.toLowerCase();
  if (!isNamed || protocol !== "websocket") return undefined;
  const [version, moreVersions] = valuesOf(headers, "sec-websocket-version");
  const [key, moreKeys] = valuesOf(headers, "sec-websocket-key");
  if (method !== "GET" || old || hasBody) {
    throw new MessageFault("an upgrade to WebSocket that is not a plain GET");
  }
  if (version !== "13" || moreVersions !== undefined) {
    throw new MessageFault("a version of WebSocket other than 13");
  }
  if (key === undefined || moreKeys !== undefined || !KEY.test(key)) {
    throw new MessageFault("an invalid Sec-WebSocket-Key");
  }
  return protocol;
}

/** Checks an upstream's answer to a handshake. @throws {MessageFault} */
export function checkAccept(request: readonly Header[], response: readonly Header[]): void {
  const key = headerValue(request, "sec-websocket-key") ?? "";
  const accepted = createHash("sha1").update(key + GUID).digest("base64");
  const answers = valuesOf(response, "sec-websocket-accept");
  if (answers.length !== 1 || answers[0] !== accepted) {
    throw new MessageFault("an invalid Sec-WebSocket-Accept");
  }
}

function valuesOf(headers: readonly Header[], name: string): string[] {
  return headers.filter((header) => header[0] === name).map(([, value]) => value);
}
