import { acceptAll } from "../../../lib/base/accept/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { FrameChannel, readExactly, writeAll } from "../../../lib/base/wire/mod.ts";
import { connectHost, type DnsFrame, PORTS } from "../../../lib/machine/guest/wire/mod.ts";
import { localOwner, type SocketAddress } from "./owner.ts";

/** Most queries waiting for the host; beyond it the oldest is dropped, whose client has given up already. */
const PENDING_MAX = 1024;

/** Relays DNS queries of programs to the host, over one vsock connection. */
export class Dns {
  #channel?: Promise<FrameChannel>;
  #ids = 0;
  readonly #pending = new Map<number, (answer: Uint8Array<ArrayBuffer> | undefined) => void>();

  /** Serves UDP. A client that repeats a query in progress gets two answers and uses one. */
  async serveUdp(listener: Deno.DatagramConn): Promise<void> {
    for await (const [query, from] of listener) {
      this.#ask(query, "udp", from as Deno.NetAddr).then(async (answer) => {
        if (answer) await listener.send(answer, from);
      }).catch(ignore("the client asks again"));
    }
  }

  async serveTcp(listener: Deno.TcpListener): Promise<void> {
    for await (const conn of acceptAll(listener)) {
      this.#serve(conn).catch(ignore("the client has left")).finally(() => conn.close());
    }
  }

  /** Serves one TCP connection: length-prefixed messages, one after another. */
  async #serve(conn: Deno.TcpConn): Promise<void> {
    for (let head = await readExactly(conn, 2); head; head = await readExactly(conn, 2)) {
      const query = await readExactly(conn, head[0] << 8 | head[1]);
      const answer = query && await this.#ask(query, "tcp", conn.remoteAddr);
      if (!answer) return;
      const message = new Uint8Array(2 + answer.length);
      message.set([answer.length >> 8, answer.length & 255]);
      message.set(answer, 2);
      await writeAll(conn, message);
    }
  }

  /** Asks the host; `undefined` when its connection is lost: the client gets no answer and asks again. */
  async #ask(
    query: Uint8Array<ArrayBuffer>,
    proto: "udp" | "tcp",
    client: SocketAddress,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const id = ++this.#ids;
    const { promise, resolve } = Promise.withResolvers<Uint8Array<ArrayBuffer> | undefined>();
    this.#pending.set(id, resolve);
    if (this.#pending.size > PENDING_MAX) this.#settle(this.#pending.keys().next().value!);
    const { process_name, container } = localOwner(proto, client);
    const frame: DnsFrame = {
      id,
      raw: query.toBase64(),
      proto,
      process_name,
      ...container && { container },
    };
    const channel = this.connect();
    try {
      await (await channel).send(frame);
    } catch {
      this.#lose(channel);
    }
    return promise;
  }

  /** Connects to the host; called early, it saves the first query that time. */
  connect(): Promise<FrameChannel> {
    if (this.#channel) return this.#channel;
    const channel = this.#channel = connectHost(PORTS.dns).then((conn) => new FrameChannel(conn));
    this.#receive(channel).catch(ignore("the next query connects again")).finally(() => this.#lose(channel));
    return channel;
  }

  async #receive(opening: Promise<FrameChannel>): Promise<void> {
    const channel = await opening;
    try {
      for await (const frame of channel.reader) {
        const { id, raw } = frame as DnsFrame;
        this.#settle(id, Uint8Array.fromBase64(raw));
      }
    } finally {
      channel.close();
    }
  }

  /** Drops a lost connection and its queries; the next query opens a new one. */
  #lose(channel: Promise<FrameChannel>): void {
    if (this.#channel !== channel) return;
    this.#channel = undefined;
    for (const id of this.#pending.keys()) this.#settle(id);
  }

  #settle(id: number, answer?: Uint8Array<ArrayBuffer>): void {
    this.#pending.get(id)?.(answer);
    this.#pending.delete(id);
  }
}
