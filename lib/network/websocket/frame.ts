/** Frames of WebSockets (RFC 6455 §5.2), parsed strictly: bytes that two programs could read differently are refused. */
import { CONTROL_PAYLOAD_MAX } from "../limit.ts";
import { MessageFault } from "../fault.ts";

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** Side that wrote a frame: only the guest, the client, masks. */
export type Side = "guest" | "upstream";

export interface FrameHead {
  opcode: number;
  /** last frame of its message */
  final: boolean;
  /** length of the payload in `bytes` */
  length: number;
  /** masking key; absent in frames of an upstream */
  mask?: Uint8Array;
  /** length of the head itself in `bytes` */
  size: number;
}

/**
 * Parses the head of a frame at the beginning of `bytes`; `undefined` while it is incomplete.
 *
 * @throws {SocketFault}
 */
export function parseFrameHead(bytes: Uint8Array, side: Side): FrameHead | undefined {
  if (bytes.length < 2) return undefined;
  const [first, second] = bytes;
  const opcode = first & 15;
  const final = (first & 128) !== 0;
  const isMasked = (second & 128) !== 0;
  const field = second & 127;
  // No extension is negotiated, so no reserved bit has a meaning.
  if ((first & 112) !== 0) throw new SocketFault("reserved bits are set");
  if (opcode > OPCODE.pong || opcode > OPCODE.binary && opcode < OPCODE.close) {
    throw new SocketFault("an unknown opcode");
  }
  if (isControl(opcode) && !final) throw new SocketFault("a fragmented control frame");
  if (isControl(opcode) && field > CONTROL_PAYLOAD_MAX) {
    throw new SocketFault("a control frame over 125 bytes");
  }
  if (isMasked !== (side === "guest")) {
    throw new SocketFault(isMasked ? "a masked frame of a server" : "an unmasked frame of a client");
  }
  const lengthSize = field < 126 ? 0 : field === 126 ? 2 : 8;
  const size = 2 + lengthSize + (isMasked ? 4 : 0);
  if (bytes.length < size) return undefined;
  const length = lengthSize === 0 ? field : readLength(bytes, lengthSize);
  return { opcode, final, length, size, ...(isMasked && { mask: bytes.slice(size - 4, size) }) };
}

export function isControl(opcode: number): boolean {
  return opcode >= OPCODE.close;
}

/** Reads an extended length. @throws {SocketFault} it is not the shortest form, or no length at all */
function readLength(bytes: Uint8Array, size: 2 | 8): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset + 2, size);
  const length = size === 2 ? view.getUint16(0) : Number(view.getBigUint64(0));
  if (length < (size === 2 ? 126 : 65536)) throw new SocketFault("a length that is not in its shortest form");
  if (length > Number.MAX_SAFE_INTEGER) throw new SocketFault("an impossible length");
  return length;
}

/** Applies a mask in place. @param offset of `bytes` in the payload */
export function applyMask(bytes: Uint8Array, mask: Uint8Array, offset: number): void {
  for (let at = 0; at < bytes.length; at++) bytes[at] ^= mask[(offset + at) & 3];
}

/** Head of a frame to write. @param mask of a frame to an upstream */
export function formatFrameHead(
  opcode: number,
  final: boolean,
  length: number,
  mask: Uint8Array | undefined,
): Uint8Array {
  const lengthSize = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const head = new Uint8Array(2 + lengthSize + (mask ? 4 : 0));
  head[0] = (final ? 128 : 0) | opcode;
  head[1] = (mask ? 128 : 0) | (lengthSize === 0 ? length : lengthSize === 2 ? 126 : 127);
  const view = new DataView(head.buffer, 2);
  if (lengthSize === 2) view.setUint16(0, length);
  if (lengthSize === 8) view.setBigUint64(0, BigInt(length));
  if (mask) head.set(mask, 2 + lengthSize);
  return head;
}

/** Frames that cannot be read safely. Both sides receive its code, and the connection ends. */
export class SocketFault extends MessageFault {
  override name = "SocketFault";

  /** @param code of the close frame: 1002 protocol error, 1007 text that is not UTF-8, 1009 too big */
  constructor(reason: string, readonly code: 1002 | 1007 | 1009 = 1002) {
    super(reason);
  }
}
