/** An HTTP proxy on loopback that records what it is asked, and leads every request to one place. */

export interface HttpProxyOptions {
  /**
   * port on loopback that every request is led to, or the one of a host; absent: the port that was asked for
   */
  to?: number | ((host: string) => number | undefined);
  /** `user:password` that it wants */
  user?: string;
  /** answers like this instead, byte for byte */
  answer?: string;
}

export class HttpProxy implements Disposable {
  /** request lines */
  readonly lines: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.Conn>();
  readonly #options: HttpProxyOptions;

  constructor(options: HttpProxyOptions = {}) {
    this.#options = options;
    this.#serve();
  }

  get port(): number {
    return (this.#listener.addr as Deno.NetAddr).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    for (const conn of this.#open) conn.close();
    this.#open.clear();
  }

  async #serve(): Promise<void> {
    for await (const conn of this.#listener) {
      this.#open.add(conn);
      this.#relay(conn).catch(() => {}).finally(() => this.#close(conn));
    }
  }

  #close(conn: Deno.Conn): void {
    if (this.#open.delete(conn)) conn.close();
  }

  async #relay(conn: Deno.Conn): Promise<void> {
    const { answer, to, user } = this.#options;
    const head = await readHead(conn);
    const [line] = head.split("\r\n");
    this.lines.push(line);
    const login = head.match(/^proxy-authorization: Basic (\S+)/im)?.[1];
    if (answer !== undefined) return await write(conn, answer);
    if (user !== undefined && login !== btoa(user)) {
      return await write(conn, "HTTP/1.1 407 no\r\ncontent-length: 0\r\n\r\n");
    }
    const [method, target] = line.split(" ");
    const isTunnel = method === "CONNECT";
    const host = (isTunnel ? target : new URL(target).host).split(":")[0];
    const port = (typeof to === "function" ? to(host) : to) ??
      Number((isTunnel ? target : new URL(target).host).match(/:(\d+)$/)?.[1] ?? 80);
    const upstream = await Deno.connect({ hostname: "127.0.0.1", port });
    this.#open.add(upstream);
    if (isTunnel) await write(conn, "HTTP/1.1 200 connected\r\n\r\n");
    else await write(upstream, head.replace(target, new URL(target).pathname));
    await Promise.all([copy(conn, upstream), copy(upstream, conn)]).finally(() => this.#close(upstream));
  }
}

async function copy(from: Deno.Conn, to: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(16_384);
  for (let read; (read = await from.read(buffer)) !== null;) await write(to, buffer.subarray(0, read));
  await to.closeWrite();
}

async function readHead(conn: Deno.Conn): Promise<string> {
  const byte = new Uint8Array(1);
  let head = "";
  while (!head.endsWith("\r\n\r\n") && await conn.read(byte) !== null) head += String.fromCharCode(byte[0]);
  return head;
}

async function write(conn: Deno.Conn, data: string | Uint8Array): Promise<void> {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}
