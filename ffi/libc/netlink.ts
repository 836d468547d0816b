/** netlink(7): sockets for requests to the kernel and messages from it. Linux only. */
import { loadFunctions } from "./load.ts";

const AF_NETLINK = 16;
/** Includes SOCK_CLOEXEC. */
const SOCK_RAW = 3 | 0o2000000;
const SOL_NETLINK = 270;
const NETLINK_NO_ENOBUFS = 5;

/** Flags of a message (linux/netlink.h). */
export const NLM_F_REQUEST = 1;
export const NLM_F_ACK = 4;

/** Length of struct nlmsghdr, in `bytes`. */
export const HEADER_BYTES = 16;

/** Fields of struct nlmsghdr. */
export interface NetlinkHeader {
  /** length of the message with its header, in `bytes` */
  length: number;
  type: number;
}

/** Reads the struct nlmsghdr at an offset, at least {@linkcode HEADER_BYTES} before the end. */
export function readHeader(view: DataView, at = 0): NetlinkHeader {
  return { length: view.getUint32(at, true), type: view.getUint16(at + 4, true) };
}

/** Creates a zeroed message of a length in `bytes`, with its struct nlmsghdr filled in. */
export function createMessage(length: number, type: number, flags: number): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(length);
  const view = new DataView(message.buffer);
  view.setUint32(0, length, true);
  view.setUint16(4, type, true);
  view.setUint16(6, flags, true);
  return message;
}

function loadLibc() {
  return loadFunctions({
    socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
    setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
    send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
    recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
    wait: { name: "recv", parameters: ["i32", "buffer", "usize", "i32"], result: "isize", nonblocking: true },
  });
}

let libc: ReturnType<typeof loadLibc> | undefined;

/** Socket of one netlink protocol, open until the process ends. */
export class Netlink {
  readonly #libc = libc ??= loadLibc();
  readonly #fd: number;

  /**
   * @param protocol `NETLINK_…` of linux/netlink.h
   * @throws {Error} the kernel does not support the protocol
   */
  constructor(protocol: number) {
    this.#fd = this.#libc.socket(AF_NETLINK, SOCK_RAW, protocol);
    if (this.#fd < 0) throw new Error(`the kernel does not support netlink protocol ${protocol}`);
    // Messages that arrive faster than they are read are lost, without an error.
    const on = new Uint8Array(new Int32Array([1]).buffer);
    this.#libc.setsockopt(this.#fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, on, on.length);
  }

  /**
   * Sends a message and waits for the answer, into `buffer`.
   *
   * @throws {Error} the kernel refuses it, or does not answer
   */
  request(message: Uint8Array<ArrayBuffer>, buffer: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const { send, recv } = this.#libc;
    if (send(this.#fd, message, BigInt(message.length), 0) < 0n) {
      throw new Error("the kernel refused a netlink message");
    }
    return buffer.subarray(0, sizeOf(recv(this.#fd, buffer, BigInt(buffer.length), 0)));
  }

  /** Receives the next datagram into `buffer`. @throws {Error} the socket has failed */
  async receive(buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    return buffer.subarray(
      0,
      sizeOf(await this.#libc.wait(this.#fd, buffer, BigInt(buffer.length), 0)),
    );
  }
}

function sizeOf(result: bigint): number {
  if (result < 0n) throw new Error("cannot read from a netlink socket");
  return Number(result);
}
