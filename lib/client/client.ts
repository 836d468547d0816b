import { SbxError } from "../base/error/mod.ts";

/** What one request carries. */
export interface RequestParts {
  query?: Record<string, string | number | undefined>;
  /** becomes a JSON body */
  json?: unknown;
  /** body as it is */
  body?: BodyInit;
  accept?: string;
  signal?: AbortSignal;
}

/** HTTP client of the API, through the gateway or, for `sbx status`, straight to the service's socket. */
export class Client {
  /**
   * @param base such as `http://127.0.0.1:19222`
   * @param token of the gateway; none on the service's socket
   * @param http for a Unix socket
   */
  constructor(readonly base: string, readonly token?: string, readonly http?: Deno.HttpClient) {}

  /** The client of a Unix socket. */
  static unix(path: string): Client {
    return new Client(
      "http://service",
      undefined,
      Deno.createHttpClient({ proxy: { transport: "unix", path } }),
    );
  }

  /**
   * Sends a request and answers its response, whose status is 2xx.
   *
   * @throws SbxError what the API answered, or `gateway.unreachable`
   */
  async send(method: string, path: string, parts: RequestParts = {}): Promise<Response> {
    const headers = new Headers();
    if (this.token) headers.set("authorization", `Bearer ${this.token}`);
    if (parts.accept) headers.set("accept", parts.accept);
    if (parts.json !== undefined) headers.set("content-type", "application/json");
    const body = parts.json === undefined ? parts.body : JSON.stringify(parts.json);
    let response: Response;
    try {
      const url = this.base + path + queryOf(parts.query);
      response = await fetch(url, { method, headers, body, signal: parts.signal, client: this.http });
    } catch (cause) {
      throw new SbxError("gateway.unreachable", `nothing answers at ${this.base}`, {
        cause,
        hint: "sbx start starts it; sbx status shows what runs",
      });
    }
    if (!response.ok) throw await failure(response);
    return response;
  }

  /** Sends a request and answers the JSON of its response. */
  async json<T>(method: string, path: string, parts: RequestParts = {}): Promise<T> {
    return await (await this.send(method, path, parts)).json();
  }

  /** URL of a WebSocket; a browser's API has no place for a header, so the token goes into the query (contracts.md §2). */
  socketUrl(path: string, query: Record<string, string | undefined> = {}): string {
    return this.base.replace(/^http/, "ws") + path + queryOf({ ...query, token: this.token });
  }
}

/**
 * The name or id of a VM, or of something else, as one segment of a path.
 *
 * @throws {SbxError} `vm.not_found` or its like, if `text` cannot be one: a URL would lead elsewhere
 */
export function segment(text: string, kind: "vm" | "profile" = "vm"): string {
  if (text !== "" && text !== "." && text !== ".." && !text.includes("/")) return encodeURIComponent(text);
  const what = kind === "vm" ? "the name or id of a VM" : "the id of a profile";
  throw new SbxError(`${kind}.not_found`, `${JSON.stringify(text)} is not ${what}`, {
    hint: `sbx ${kind === "vm" ? "list" : "profile list"} shows those that exist`,
  });
}

function queryOf(query: RequestParts["query"]): string {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
  return pairs.length === 0
    ? ""
    : `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}

async function failure(response: Response): Promise<SbxError> {
  const text = await response.text();
  try {
    const { error, code, hint } = JSON.parse(text);
    if (typeof error === "string" && typeof code === "string") return new SbxError(code, error, { hint });
  } catch { /* not the API's own answer */ }
  return new SbxError("gateway.bad_answer", `the gateway answered ${response.status}, and does not say why`, {
    hint: "sbx stop and sbx start put another one in its place",
    cause: text,
  });
}
