/** Close frames (RFC 6455 §5.5.1, §7.4). */
import { CONTROL_PAYLOAD_MAX } from "../limit.ts";
import { NO_BYTES } from "../message/byte_buffer.ts";
import { SocketFault } from "./frame.ts";

/** Codes of sbx's own close frames; a {@linkcode SocketFault} has further codes. */
export const CLOSE = { policy: 1008, tooBig: 1009, internal: 1011 } as const;

/** Content of a close frame. */
export interface CloseReason {
  code: number;
  /** UTF-8 */
  reason: Uint8Array;
}

/** Parses the payload of a close frame; `undefined` for an empty one. @throws {SocketFault} */
export function parseClose(payload: Uint8Array): CloseReason | undefined {
  if (payload.length === 0) return undefined;
  if (payload.length === 1) throw new SocketFault("half a close code");
  const code = payload[0] << 8 | payload[1];
  if (!isCloseCode(code)) throw new SocketFault("an invalid close code");
  const reason = payload.slice(2);
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(reason);
  } catch {
    throw new SocketFault("a close reason that is not UTF-8", 1007);
  }
  return { code, reason };
}

/** Codes that may be sent: the RFC's and its registry's, libraries', and applications'. */
function isCloseCode(code: number): boolean {
  if (code >= 3000) return code < 5000;
  return code >= 1000 && code <= 1014 && !RESERVED_CODES.has(code);
}

/** Codes that only describe a connection, and are never sent. */
const RESERVED_CODES = new Set([1004, 1005, 1006]);

/** Payload of a close frame; a reason that does not fit is left out. */
export function formatClose(code: number, reason: Uint8Array = NO_BYTES): Uint8Array {
  const text = reason.length <= CONTROL_PAYLOAD_MAX - 2 ? reason : NO_BYTES;
  return Uint8Array.from([code >> 8, code & 255, ...text]);
}
