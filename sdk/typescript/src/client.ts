import { type ConnectOptions, type Endpoint, parseHost, socketEndpoint, tcpEndpoint } from "./address.ts";
import { Http, queryOf, requirePath } from "./http.ts";
import { sshEndpoint } from "./ssh.ts";
import { WebSocketClient } from "./websocket.ts";

/** A connection to one sbx, for requests that {@linkcode Sandbox} has no call for. */
export class Client implements AsyncDisposable {
  readonly http: Http;

  private constructor(endpoint: Endpoint) {
    this.http = new Http(endpoint);
  }

  /**
   * Finds the sbx to use: `host`, or `SBX_HOST`, or the socket of this machine's.
   *
   * @throws {SbxError} `host.invalid`, `host.unreachable`, `host.credential`
   */
  static async connect(options: ConnectOptions = {}): Promise<Client> {
    const isLocal = options.home !== undefined || options.socket !== undefined;
    const host = options.host ?? (isLocal ? undefined : process.env.SBX_HOST || undefined);
    if (host === undefined) return new Client(socketEndpoint(options));
    const url = parseHost(host);
    return new Client(url.protocol === "ssh:" ? await sshEndpoint(url) : tcpEndpoint(url, options));
  }

  /** Sends a request of the API. @returns its JSON */
  request<T = unknown>(
    method: string,
    path: string,
    parts: {
      query?: Record<string, string | number | boolean | undefined>;
      json?: unknown;
      signal?: AbortSignal;
    } = {},
  ): Promise<T> {
    return this.http.json<T>(method, path, parts);
  }

  /** Opens a WebSocket of the API. */
  async socket(path: string, query: Record<string, string | undefined> = {}): Promise<WebSocketClient> {
    requirePath(path);
    return await WebSocketClient.open(this.http.endpoint, path + queryOf(query));
  }

  /** Ends the way to another machine. */
  close(): void {
    this.http.endpoint.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
    await Promise.resolve();
  }
}
