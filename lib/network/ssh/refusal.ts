/** A refusal in the words of SSH before any key is agreed on: clients show the text of a disconnect. */
import { joinBytes } from "../../base/bytes/mod.ts";

/** SSH_MSG_DISCONNECT, and SSH_DISCONNECT_HOST_NOT_ALLOWED_TO_CONNECT (RFC 4253 §11.1). */
const DISCONNECT = 1;
const NOT_ALLOWED = 1;
/**
 * A packet without a cipher fills blocks of so many `bytes`, and has so many of
 * padding at least (RFC 4253 §6).
 */
const BLOCK = 8;
const PADDING_MIN = 4;

/** The version line of a server, and its disconnect. @param line the reason, without control characters */
export function formatDisconnect(line: string): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(line);
  const payload = joinBytes([
    new Uint8Array([DISCONNECT]),
    uint32(NOT_ALLOWED),
    uint32(text.length),
    text,
    uint32(0),
  ]);
  const head = 5;
  const rest = (head + payload.length + PADDING_MIN) % BLOCK;
  const padding = PADDING_MIN + (rest === 0 ? 0 : BLOCK - rest);
  return joinBytes([
    new TextEncoder().encode("SSH-2.0-sbx\r\n"),
    uint32(1 + payload.length + padding),
    new Uint8Array([padding]),
    payload,
    new Uint8Array(padding),
  ]);
}

function uint32(value: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, value);
  return bytes;
}
