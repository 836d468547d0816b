/** Client of the HTTP API, with its answers' errors and event streams. */
import { ignore, SbxError } from "../base/error/mod.ts";
import { isLogged, log } from "../base/log/mod.ts";
import { VERSION } from "../base/version/mod.ts";

/** Parts of one request. */
export interface RequestParts {
  query?: Record<string, string | number | undefined>;
  /** value of a JSON body */
  json?: unknown;
  /** raw body */
  body?: BodyInit;
  accept?: string;
  signal?: AbortSignal;
  /** further headers, or replacements of this client's headers */
  headers?: Record<string, string>;
}

/**
 * HTTP client of the API: through a Unix socket to the gateway of this user, or for `sbx status` to the
 * service; to another machine's gateway as lib/client/remote connects. Without `http`, Deno would send
 * requests for 127.0.0.1 to the proxy of `HTTP_PROXY`, token and keys included: so it is required.
 */
export class Client {
  /**
   * @param base base URL, such as `http://127.0.0.1:19222`
   * @param token token of another machine's gateway; none on a socket, whose folder only its user enters
   * @param http client that connects where this one leads, whatever proxies the environment names
   */
  constructor(readonly base: string, readonly token: string | undefined, readonly http: Deno.HttpClient) {}

  /** Creates a client of a Unix socket. @param base URL of the same gateway by TCP, for a browser */
  static unix(path: string, base = "http://service"): Client {
    return new Client(base, undefined, Deno.createHttpClient({ proxy: { transport: "unix", path } }));
  }

  /**
   * Sends a request and returns its response with a 2xx status.
   *
   * @throws {SbxError} the error of the API; `gateway.unreachable`; `gateway.bad_answer`
   */
  async send(method: string, path: string, parts: RequestParts = {}): Promise<Response> {
    const headers = new Headers({ "user-agent": `sbx/${VERSION}`, ...parts.headers });
    if (this.token) headers.set("authorization", `Bearer ${this.token}`);
    if (parts.accept) headers.set("accept", parts.accept);
    if (parts.json !== undefined) headers.set("content-type", "application/json");
    const body = parts.json === undefined ? parts.body : JSON.stringify(parts.json);
    let response: Response;
    try {
      const url = this.base + path + queryOf(parts.query);
      response = await fetch(url, { method, headers, body, signal: parts.signal, client: this.http });
    } catch (cause) {
      throw new SbxError("gateway.unreachable", `no answer at ${this.base}`, {
        cause,
        hint: "start the gateway: sbx start; sbx status lists the running programs",
      });
    }
    if (isLogged("debug")) {
      // Loaded for the log alone: commands start without it.
      const { pathNamer, ROUTES } = await import("./gateway/mod.ts");
      log.debug(`${method} ${pathNamer(ROUTES)(path)} ${response.status}`);
    }
    if (!response.ok) throw await responseError(response);
    return response;
  }

  /** Sends a request and returns the JSON of its response. */
  async json<T>(method: string, path: string, parts: RequestParts = {}): Promise<T> {
    return await (await this.send(method, path, parts)).json();
  }

  /** Opens a WebSocket, as {@linkcode socketUrl} says. */
  socket(path: string, query: Record<string, string | undefined> = {}): WebSocket {
    return new WebSocket(this.socketUrl(path, query), { client: this.http });
  }

  /**
   * URL of a WebSocket, whose API has no headers: the token goes into the query
   * (docs/design/contracts/02-http.md §2).
   */
  socketUrl(path: string, query: Record<string, string | undefined> = {}): string {
    return this.base.replace(/^http/, "ws") + path + queryOf({ ...query, token: this.token });
  }
}

/** The meaning of a path segment, and the command that lists its values. */
const SEGMENTS = {
  vm: { what: "the name or id of a VM", list: "sbx list" },
  profile: { what: "the id of a profile", list: "sbx profile list" },
  template: { what: "the id of a template", list: "sbx template list" },
  snapshot: { what: "the id of a snapshot", list: "sbx snapshots list NAME" },
  job: { what: "the id of a job", list: "sbx jobs" },
  service: { what: "the name of a service", list: "sbx services" },
};

/**
 * Encodes the name or id of a VM, a profile, a template, a snapshot, a job or a
 * service as one segment of a path.
 *
 * @throws {SbxError} `vm.not_found`, `profile.not_found`, `template.not_found`, `snapshot.not_found`,
 * `job.not_found`, `service.not_found`: `text` cannot be one, and would change the path
 */
export function segment(text: string, kind: keyof typeof SEGMENTS = "vm"): string {
  if (text !== "" && text !== "." && text !== ".." && !text.includes("/")) return encodeURIComponent(text);
  const { what, list } = SEGMENTS[kind];
  throw new SbxError(`${kind}.not_found`, `${JSON.stringify(text)} is not ${what}`, {
    hint: `${list} shows the existing ones`,
  });
}

/**
 * Encodes the name of an MCP tool as one segment: `~1` is `/` and `~0` is `~`, as in a JSON Pointer, and `~2`
 * is `%`. Gateways refuse segments that could be decoded twice.
 */
export function toolSegment(name: string): string {
  return encodeURIComponent(name.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("%", "~2"));
}

function queryOf(query: RequestParts["query"]): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  return pairs.length === 0
    ? ""
    : `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}

export async function responseError(response: Response): Promise<SbxError> {
  const text = await response.text();
  try {
    const { error, code, hint } = JSON.parse(text);
    if (typeof error === "string" && typeof code === "string") return new SbxError(code, error, { hint });
  } catch { /* not an answer of the API */ }
  return new SbxError(
    "gateway.bad_answer",
    `the gateway answered with status ${response.status} and no reason`,
    { hint: "restart it: sbx stop, then sbx start", cause: text },
  );
}

// Server-sent events (WHATWG HTML standard).

/** One event. */
export interface ServerEvent {
  /** event name; `message` when the stream gives none */
  event: string;
  data: string;
}

/**
 * Parses chunks of text into events. An event cut off by the end of the stream is dropped, as the standard
 * requires.
 */
export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];

  /** Returns the events completed by `text`. */
  push(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    this.#rest += text;
    let start = 0;
    while (true) {
      const end = lineEnd(this.#rest, start);
      if (end === undefined) break;
      this.#line(this.#rest.slice(start, end.at), events);
      start = end.next;
    }
    this.#rest = this.#rest.slice(start);
    return events;
  }

  #line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) {
        events.push({ event: this.#event || "message", data: this.#data.join("\n") });
      }
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") this.#event = value;
    if (field === "data") this.#data.push(value);
  }
}

/**
 * Finds the end of a line: LF, CRLF or CR. A CR at the end of the text may be half of a CRLF and does not
 * count yet.
 */
function lineEnd(text: string, from: number): { at: number; next: number } | undefined {
  const lf = text.indexOf("\n", from);
  const cr = text.slice(from, lf < 0 ? undefined : lf).indexOf("\r") + from;
  if (cr >= from) {
    if (cr === text.length - 1) return undefined;
    return { at: cr, next: text[cr + 1] === "\n" ? cr + 2 : cr + 1 };
  }
  return lf < 0 ? undefined : { at: lf, next: lf + 1 };
}

/**
 * Reads the events of a running program's response as they arrive.
 *
 * @throws {SbxError} `service.gone`: the connection broke before the service closed it
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  const parser = new SseParser();
  const reader = body.getReader();
  try {
    while (true) {
      const { value, done } = await reader.read().catch((cause) => {
        throw connectionError(cause);
      });
      if (done) break;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
    yield* parser.push(decoder.decode());
  } finally {
    await reader.cancel().catch(ignore("the connection is gone"));
  }
}

/** Converts a read error to `service.gone`; keeps the caller's own abort. */
function connectionError(cause: unknown): unknown {
  if ((cause as Error)?.name === "AbortError" || cause instanceof SbxError) return cause;
  return new SbxError("service.gone", "the service went away while the program ran", {
    cause,
    hint:
      "the program was ended; its VM keeps running, unless it is one of sbx run: sbx list starts the service again; then run " +
      "the program again",
  });
}
