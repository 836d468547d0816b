/** netlink(7): sockets on which the kernel is asked, and on which it tells. Linux only; Deno has none. */

const AF_NETLINK = 16;
/** with SOCK_CLOEXEC */
const SOCK_RAW = 3 | 0o2000000;
const SOL_NETLINK = 270;
const NETLINK_NO_ENOBUFS = 5;

function open() {
  return Deno.dlopen("libc.so.6", {
    socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
    setsockopt: { parameters: ["i32", "i32", "i32", "buffer", "u32"], result: "i32" },
    send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
    recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
    wait: { name: "recv", parameters: ["i32", "buffer", "usize", "i32"], result: "isize", nonblocking: true },
  });
}

let libc: ReturnType<typeof open> | undefined;

/** A socket of one netlink protocol. It is the program's for as long as that runs. */
export class Netlink {
  readonly #libc = libc ??= open();
  readonly #fd: number;

  /** @param protocol `NETLINK_…` of linux/netlink.h @throws {Error} when the kernel has no such protocol */
  constructor(protocol: number) {
    this.#fd = this.#libc.symbols.socket(AF_NETLINK, SOCK_RAW, protocol);
    if (this.#fd < 0) throw new Error(`the kernel has no netlink protocol ${protocol}`);
    // What comes faster than it is read is lost, and that ends nothing.
    const on = new Uint8Array(new Int32Array([1]).buffer);
    this.#libc.symbols.setsockopt(this.#fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, on, on.length);
  }

  /** Sends a message and waits for what the kernel says to it. @throws {Error} when it takes none, or says nothing */
  ask(message: Uint8Array<ArrayBuffer>, answer: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const { send, recv } = this.#libc.symbols;
    if (send(this.#fd, message, BigInt(message.length), 0) < 0n) {
      throw new Error("the kernel takes no such message");
    }
    return answer.subarray(0, sizeOf(recv(this.#fd, answer, BigInt(answer.length), 0)));
  }

  /** The next datagram, into `buffer`, once there is one. @throws {Error} when the socket has failed */
  async next(buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
    return buffer.subarray(
      0,
      sizeOf(await this.#libc.symbols.wait(this.#fd, buffer, BigInt(buffer.length), 0)),
    );
  }
}

function sizeOf(result: bigint): number {
  if (result < 0n) throw new Error("the kernel's answer cannot be read");
  return Number(result);
}
