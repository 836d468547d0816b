/** An HTTP server that answers byte for byte what a test says: also what no honest server would. */

/** One request as it arrived. */
export interface RawRequest {
  path: string;
  /** lower-case names */
  headers: Headers;
}

/** Answers one request by writing to its connection, which is closed afterwards. */
export type RawAnswer = (
  request: RawRequest,
  write: (data: string | Uint8Array) => Promise<void>,
) => Promise<void>;

export class RawServer implements Disposable {
  readonly requests: RawRequest[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #open = new Set<Deno.Conn>();

  constructor(answer: RawAnswer) {
    this.#serve(answer).catch(() => {});
  }

  /** Address of a path here. */
  url(path = "/file"): URL {
    return new URL(path, `http://127.0.0.1:${(this.#listener.addr as Deno.NetAddr).port}`);
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    for (const conn of this.#open) conn.close();
    this.#open.clear();
  }

  async #serve(answer: RawAnswer): Promise<void> {
    for await (const conn of this.#listener) {
      this.#open.add(conn);
      this.#answer(conn, answer).catch(() => {}).finally(() => {
        if (this.#open.delete(conn)) conn.close();
      });
    }
  }

  async #answer(conn: Deno.Conn, answer: RawAnswer): Promise<void> {
    let head = "";
    const buffer = new Uint8Array(4096);
    while (!head.includes("\r\n\r\n")) {
      const read = await conn.read(buffer);
      if (read === null) return;
      head += new TextDecoder().decode(buffer.subarray(0, read));
    }
    const [line, ...fields] = head.slice(0, head.indexOf("\r\n\r\n")).split("\r\n");
    const headers = new Headers(fields.map((field) => {
      const colon = field.indexOf(":");
      return [field.slice(0, colon), field.slice(colon + 1).trim()];
    }));
    const request = { path: line.split(" ")[1], headers };
    this.requests.push(request);
    await answer(request, async (data) => {
      const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
      for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
    });
  }
}

/** Head of an answer. */
export function head(status: number, headers: Record<string, string | number> = {}): string {
  const fields = Object.entries({ connection: "close", ...headers }).map(([name, value]) =>
    `${name}: ${value}`
  );
  return [`HTTP/1.1 ${status} status`, ...fields, "", ""].join("\r\n");
}
