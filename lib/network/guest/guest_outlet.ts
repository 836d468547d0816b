/** Writes a response on a guest's HTTP/1.1 connection; `http2/stream.ts` does so for HTTP/2. */
import type { BufferedConnection } from "../connection.ts";
import type { Outlet } from "../exchange/context.ts";
import { ClientLost } from "../fault.ts";
import type { Header } from "../message/header.ts";
import { BodyWriter, formatHead } from "../message/body.ts";
import { GuestReplies, type ReplyOptions } from "./replies.ts";

/** Form of a response on a guest's connection. */
export interface OutletOptions extends ReplyOptions {
  /** HTTP/1.0: no chunks */
  old: boolean;
  /** the connection may serve another request */
  alive: boolean;
  /** timeout of each write in `ms` */
  idleMs: number;
  signal: AbortSignal;
  /** called when the client goes away */
  onGone(): void;
  /**
   * the client waits for `100 Continue`; a response without it ends the connection,
   * whose next bytes could be the body
   */
  expects?: boolean;
}

const CONTINUE = new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n");

/** Writes one response on a guest's HTTP/1.1 connection. */
export class GuestOutlet extends GuestReplies implements Outlet {
  /** the connection serves another request; final once the response is complete */
  alive: boolean;
  /** a byte was written: a later refusal cannot be sent any more */
  begun = false;
  readonly signal: AbortSignal;
  readonly #connection: BufferedConnection;
  readonly #options: OutletOptions;
  /** the client still waits for `100 Continue` */
  #isAwaited: boolean;
  #writer?: BodyWriter;

  constructor(connection: BufferedConnection, options: OutletOptions) {
    super(options);
    this.#connection = connection;
    this.#options = options;
    this.alive = options.alive;
    this.#isAwaited = options.expects === true;
    this.signal = options.signal;
  }

  /** The body of the request was announced and not asked for. */
  get isAwaited(): boolean {
    return this.#isAwaited;
  }

  async proceed(): Promise<void> {
    if (!this.#isAwaited) return;
    this.#isAwaited = false;
    this.#connection.deadline.set(this.#options.idleMs);
    await this.#write(() => this.#connection.write(CONTINUE));
    this.#connection.deadline.off();
  }

  async sendWhole(
    status: number,
    headers: readonly Header[],
    body: Uint8Array,
    declared?: string,
  ): Promise<void> {
    const isBodiless = this.isBodiless(status);
    const length = isBodiless ? declared : `${body.length}`;
    const head = this.#head(status, headers, length === undefined ? "" : `content-length: ${length}\r\n`);
    this.begun = true;
    this.#connection.deadline.set(this.#options.idleMs);
    try {
      await this.#connection.writeJoined(head, isBodiless ? undefined : body);
    } catch (cause) {
      this.alive = false;
      throw new ClientLost(cause);
    }
    this.#connection.deadline.off();
  }

  begin(status: number, headers: readonly Header[], length: number | undefined): void {
    const isChunked = length === undefined && !this.#options.old;
    if (length === undefined && !isChunked) this.alive = false;
    const framing = isChunked
      ? "transfer-encoding: chunked\r\n"
      : length === undefined
      ? ""
      : `content-length: ${length}\r\n`;
    const head = this.#head(status, headers, framing);
    this.#writer = new BodyWriter(this.#connection, head, isChunked, this.#options.idleMs);
  }

  flush(): Promise<void> {
    this.begun = true;
    return this.#write(() => this.#writer!.flush());
  }

  write(piece: Uint8Array): Promise<void> {
    this.begun = true;
    return this.#write(() => this.#writer!.write(piece));
  }

  async end(trailers: readonly Header[]): Promise<void> {
    this.begun = true;
    await this.#write(() => this.#writer!.end(trailers));
    this.#connection.deadline.off();
  }

  cut(): void {
    this.alive = false;
    this.#connection.close();
  }

  async upgrade(headers: readonly Header[], protocol: string): Promise<BufferedConnection> {
    this.alive = false;
    this.begun = true;
    const more = `connection: upgrade\r\nupgrade: ${protocol}\r\n`;
    await this.#write(() =>
      this.#connection.writeJoined(formatHead("HTTP/1.1 101 Switching Protocols", headers, more))
    );
    this.#connection.unlisten();
    return this.#connection;
  }

  watch(onGone: () => void): void {
    this.#connection.deadline.off();
    this.#connection.listen(() => {
      this.alive = false;
      this.#options.onGone();
      onGone();
    });
  }

  #head(status: number, headers: readonly Header[], framing: string): string {
    const { old } = this.#options;
    if (this.#isAwaited) this.alive = false;
    const connection = this.alive ? old ? "connection: keep-alive\r\n" : "" : "connection: close\r\n";
    return formatHead(`HTTP/1.1 ${status} ${REASONS[status] ?? ""}`, headers, framing + connection);
  }

  async #write(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (cause) {
      this.alive = false;
      throw new ClientLost(cause);
    }
  }
}

const REASONS: Record<number, string> = {
  200: "OK",
  201: "Created",
  202: "Accepted",
  204: "No Content",
  206: "Partial Content",
  301: "Moved Permanently",
  302: "Found",
  303: "See Other",
  304: "Not Modified",
  307: "Temporary Redirect",
  308: "Permanent Redirect",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  413: "Content Too Large",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};
