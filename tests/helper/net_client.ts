/** A client and upstreams that send exactly the bytes of a test. */
import { closeQuietly } from "../../lib/base/wire/mod.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A response as received. */
export interface RawResponse {
  status: number;
  headers: Headers;
  body: string;
  trailers: string;
}

/** One connection, with a reader for HTTP/1.1 responses. */
export class RawClient {
  #buffered = new Uint8Array();

  constructor(readonly conn: Deno.Conn) {}

  async send(text: string | Uint8Array): Promise<void> {
    const bytes = typeof text === "string" ? encoder.encode(text) : text;
    for (let at = 0; at < bytes.length;) at += await this.conn.write(bytes.subarray(at));
  }

  /** Sends a request and reads its response. */
  async ask(text: string | Uint8Array, method = "GET"): Promise<RawResponse> {
    await this.send(text);
    return await this.answer(method);
  }

  async answer(method = "GET"): Promise<RawResponse> {
    const [first, ...lines] = (await this.until("\r\n\r\n")).trimEnd().split("\r\n");
    const headers = new Headers(
      lines.map((line) => /^([^:]*): *(.*)$/.exec(line)!.slice(1, 3) as [string, string]),
    );
    const status = Number(first.split(" ")[1]);
    let body = "";
    let trailers = "";
    if (method === "HEAD" || status < 200 || status === 204 || status === 304) {
      return { status, headers, body, trailers };
    }
    if (headers.get("transfer-encoding") === "chunked") {
      while (true) {
        const size = parseInt(await this.until("\r\n"), 16);
        if (size === 0) break;
        body += await this.take(size);
        await this.take(2);
      }
      for (let line = await this.until("\r\n"); line !== "\r\n"; line = await this.until("\r\n")) {
        trailers += line;
      }
    } else if (headers.has("content-length")) body = await this.take(Number(headers.get("content-length")));
    else body = await this.rest();
    return { status, headers, body, trailers };
  }

  /** Reads up to a mark, and the mark. */
  async until(mark: string): Promise<string> {
    while (true) {
      const text = decoder.decode(this.#buffered);
      const at = text.indexOf(mark);
      if (at >= 0) return await this.take(encoder.encode(text.slice(0, at + mark.length)).length);
      if (!await this.#more()) {
        throw new Error(`closed before ${JSON.stringify(mark)}: ${JSON.stringify(text)}`);
      }
    }
  }

  async take(count: number): Promise<string> {
    while (this.#buffered.length < count) if (!await this.#more()) throw new Error("closed within a body");
    const text = decoder.decode(this.#buffered.subarray(0, count));
    this.#buffered = this.#buffered.slice(count);
    return text;
  }

  async takeBytes(count: number): Promise<Uint8Array> {
    while (this.#buffered.length < count) if (!await this.#more()) throw new Error("closed within a frame");
    const bytes = this.#buffered.slice(0, count);
    this.#buffered = this.#buffered.slice(count);
    return bytes;
  }

  /** Reads until the peer closes. */
  async rest(): Promise<string> {
    while (await this.#more());
    return await this.take(this.#buffered.length);
  }

  /** True when the peer closes without sending more. */
  async closed(): Promise<boolean> {
    return !await this.#more();
  }

  async #more(): Promise<boolean> {
    const buffer = new Uint8Array(64 * 1024);
    const count = await this.conn.read(buffer).catch(() => null);
    if (count === null) return false;
    const joined = new Uint8Array(this.#buffered.length + count);
    joined.set(this.#buffered);
    joined.set(buffer.subarray(0, count), this.#buffered.length);
    this.#buffered = joined;
    return true;
  }

  close(): void {
    try {
      this.conn.close();
    } catch {
      // closed already
    }
  }
}

/** An upstream on loopback. */
export interface RawUpstream {
  target: { hostname: string; port: number };
  /** accepted connections */
  conns: Deno.Conn[];
  close(): void;
}

/**
 * Starts an upstream that calls `serve` with each connection.
 *
 * @param tls certificate and key; plain TCP without them
 */
export function rawUpstream(
  serve: (client: RawClient, conn: Deno.Conn) => Promise<void>,
  tls?: { cert: string; key: string },
  alpn = ["http/1.1"],
): RawUpstream {
  const listener = tls
    ? Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...tls, alpnProtocols: alpn })
    : Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const conns: Deno.Conn[] = [];
  const accept = async () => {
    for await (const conn of listener) {
      conns.push(conn);
      serve(new RawClient(conn), conn).catch(() => {}).finally(() => closeQuietly(conn));
    }
  };
  accept().catch(() => {});
  return {
    target: { hostname: "127.0.0.1", port: (listener.addr as Deno.NetAddr).port },
    conns,
    close() {
      listener.close();
      conns.forEach(closeQuietly);
    },
  };
}

/** Starts an upstream with the same response to every request. */
export function fixedUpstream(
  answer: string,
  tls?: { cert: string; key: string },
): RawUpstream & { requests: string[] } {
  const requests: string[] = [];
  const upstream = rawUpstream(async (client) => {
    while (true) {
      const head = await client.until("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      requests.push(head + await client.take(length));
      await client.send(answer);
    }
  }, tls);
  return { ...upstream, requests };
}
