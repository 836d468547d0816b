/**
 * A collecting server: the part of Hrana 2 over HTTP that a client of plain statements speaks
 * (`POST /v2/pipeline` with `execute` and `close`), in front of a database file. As a program it
 * can be killed: `hrana.ts PORT FILE TOKEN [MS]` prints its port once it listens, and a line for
 * every statement that it begins.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite";

/** A value on the wire: integers are text, so that none loses digits. */
interface WireValue {
  type: "null" | "integer" | "float" | "text" | "blob";
  value?: string | number;
  base64?: string;
}
interface WireRequest {
  type: string;
  stmt?: { sql: string; args?: WireValue[] };
}

/** Faults of a server. */
export interface HranaOptions {
  /** database file */
  file: string;
  token: string;
  /** 0 for any that is free */
  port?: number;
  /** answer to another token */
  refuse?(request: Request): Response;
  /** called before a statement runs; what it throws breaks the connection off */
  before?(sql: string): Promise<void> | void;
  /** the same, when the statement has run and its answer is not sent yet */
  after?(sql: string): Promise<void> | void;
}

/** A server that listens on 127.0.0.1 until it is closed. */
export class HranaServer implements AsyncDisposable {
  /** requests that came with the right token, and with another */
  readonly served = { good: 0, refused: 0 };
  /** streams that no client has closed */
  readonly open = new Set<string>();
  readonly #options: HranaOptions;
  readonly #database: DatabaseSync;
  readonly #http: Deno.HttpServer<Deno.NetAddr>;

  constructor(options: HranaOptions) {
    this.#options = options;
    this.#database = new DatabaseSync(options.file);
    this.#http = Deno.serve(
      { hostname: "127.0.0.1", port: options.port ?? 0, onListen() {}, onError: () => broken() },
      (request) => this.#serve(request),
    );
  }

  get port(): number {
    return this.#http.addr.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#http.shutdown();
    this.#database.close();
  }

  async #serve(request: Request): Promise<Response> {
    if (request.headers.get("authorization") !== `Bearer ${this.#options.token}`) {
      this.served.refused++;
      return this.#options.refuse?.(request) ?? new Response("the token is not known", { status: 401 });
    }
    this.served.good++;
    if (new URL(request.url).pathname !== "/v2/pipeline") {
      return new Response("no such path", { status: 404 });
    }
    const { baton, requests } = await request.json() as { baton?: string; requests: WireRequest[] };
    const stream = baton ?? crypto.randomUUID();
    this.open.add(stream);
    const results = [];
    for (const { type, stmt } of requests) {
      if (type === "close") {
        this.open.delete(stream);
        results.push({ type: "ok", response: { type } });
      } else if (type === "execute" && stmt) results.push(await this.#execute(stmt));
      else results.push({ type: "error", error: { message: `no request ${type}`, code: "PROTOCOL" } });
    }
    return Response.json({ baton: this.open.has(stream) ? stream : null, base_url: null, results });
  }

  async #execute({ sql, args = [] }: NonNullable<WireRequest["stmt"]>) {
    await this.#options.before?.(sql);
    try {
      const statement = this.#database.prepare(sql);
      statement.setReturnArrays(true);
      const columns = statement.columns().map(({ name }) => name);
      const rows = statement.all(...args.map(fromWire)) as unknown as unknown[][];
      await this.#options.after?.(sql);
      const result = {
        cols: columns.map((name) => ({ name, decltype: null })),
        rows: rows.map((row) => row.map(toWire)),
        affected_row_count: 0,
        last_insert_rowid: null,
      };
      return { type: "ok", response: { type: "execute", result } };
    } catch (error) {
      const { message, code } = error as { message: string; code?: string };
      if (code !== "ERR_SQLITE_ERROR") throw error;
      return { type: "error", error: { message, code: "SQLITE_ERROR" } };
    }
  }
}

/** A connection that ends in the middle of an answer. */
function broken(): Response {
  const body = new ReadableStream({ pull: (controller) => controller.error(new Error("broken off")) });
  return new Response(body, { headers: { "content-type": "application/json" } });
}

function fromWire({ type, value, base64 }: WireValue): SQLInputValue {
  if (type === "null") return null;
  if (type === "blob") return Uint8Array.fromBase64(base64!);
  return type === "integer" ? BigInt(value!) : value!;
}

function toWire(value: unknown): WireValue {
  if (value === null) return { type: "null" };
  if (value instanceof Uint8Array) return { type: "blob", base64: value.toBase64() };
  if (typeof value === "string") return { type: "text", value };
  return Number.isInteger(value)
    ? { type: "integer", value: String(value) }
    : { type: "float", value: value as number };
}

if (import.meta.main) {
  const [port, file, token, ms = "0"] = Deno.args;
  const before = async (sql: string) => {
    console.log(sql.slice(0, 6));
    await new Promise((resolve) => setTimeout(resolve, Number(ms)));
  };
  console.log(new HranaServer({ port: Number(port), file, token, before }).port);
}
