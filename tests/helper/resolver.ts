/** A real resolver on loopback, over UDP and TCP, whose answers a test makes. */
import packet from "dns-packet";
import { Buffer } from "node:buffer";
import { createSocket, type Socket } from "node:dgram";
import type { Parsed } from "./json.ts";

/** Makes the answer to a query; `undefined` sends none. */
export type Respond = (
  query: { id: number; questions: { name: string; type: string }[] },
  proto: "udp" | "tcp",
) => Record<string, unknown> | Uint8Array | undefined;

/** Answers with records, and with rcode 3 without any. */
export function records(...answers: Record<string, unknown>[]): Respond {
  return () => ({ answers, ...(answers.length === 0 && { flags: 3 }) });
}

export class TestResolver {
  readonly seen: { name: string; type: string; proto: "udp" | "tcp"; port: number; id: number }[] = [];
  readonly port: number;
  readonly #udp: Socket;
  readonly #tcp: Deno.TcpListener;
  #marked?: () => void;

  private constructor(udp: Socket, tcp: Deno.TcpListener, public respond: Respond) {
    this.#udp = udp;
    this.#tcp = tcp;
    this.port = tcp.addr.port;
    udp.on("message", (message, from) => {
      if (message.length === 0) return this.#marked?.();
      const bytes = this.#answer(message, "udp", from.port);
      if (bytes) udp.send(bytes, from.port, from.address);
    });
    this.#serveTcp();
  }

  static async start(respond: Respond): Promise<TestResolver> {
    const tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const udp = createSocket("udp4");
    await new Promise<void>((resolve) => udp.bind(tcp.addr.port, "127.0.0.1", resolve));
    return new TestResolver(udp, tcp, respond);
  }

  get endpoint() {
    return { hostname: "127.0.0.1", port: this.port };
  }

  /** Answers UDP only from now on. */
  closeTcp(): void {
    this.#tcp.close();
  }

  /** Waits until all queries that were sent over UDP before have been read. */
  async drained(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#marked = resolve;
    this.#udp.send(new Uint8Array(0), this.port, "127.0.0.1");
    await promise;
  }

  close(): void {
    this.#udp.close();
    try {
      this.#tcp.close();
    } catch {
      // closed already
    }
  }

  #answer(message: Uint8Array, proto: "udp" | "tcp", port: number): Uint8Array | undefined {
    const query = packet.decode(Buffer.from(message));
    const [{ name, type }] = query.questions;
    this.seen.push({ name, type, proto, port, id: query.id });
    const response = this.respond(query, proto);
    if (response === undefined || response instanceof Uint8Array) return response;
    return packet.encode({ type: "response", id: query.id, questions: query.questions, ...response });
  }

  async #serveTcp(): Promise<void> {
    for await (const conn of this.#tcp) {
      const chunk = new Uint8Array(4096);
      const read = await conn.read(chunk);
      const bytes = read && this.#answer(chunk.subarray(2, read), "tcp", 0);
      if (bytes) {
        const message = new Uint8Array(2 + bytes.length);
        new DataView(message.buffer).setUint16(0, bytes.length);
        message.set(bytes, 2);
        for (let at = 0; at < message.length;) at += await conn.write(message.subarray(at));
      }
      conn.close();
    }
  }
}

/** Encodes a query of the guest. */
export function ask(name: string, type = "A", options: Record<string, unknown> = {}): Uint8Array {
  return packet.encode({
    type: "query",
    id: 4242,
    flags: packet.RECURSION_DESIRED,
    questions: [{ name, type }],
    ...options,
  });
}

/** Decodes an answer, with its Extended DNS Error. */
export function read(bytes: Uint8Array): Parsed {
  const answer = packet.decode(Buffer.from(bytes));
  const option = answer.additionals[0]?.options[0];
  const error = option && { code: option.data[1], text: new TextDecoder().decode(option.data.subarray(2)) };
  return { ...answer, error, data: answer.answers.map(({ data }: { data: unknown }) => data) };
}
