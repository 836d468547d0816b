/** How programs of this host reach the network. */
import type { SbxError } from "../error/mod.ts";
import { connectThrough } from "./connect.ts";
import { NoProxy } from "./no_proxy.ts";
import type { Proxies, Proxy } from "./settings.ts";

/** Idle connections kept for one host. */
const IDLE_PER_HOST_MAX = 64;
/** Variables that name proxies; Deno reads them whenever it makes an HTTP client. */
const VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"].flatMap((name) => [
  name,
  name.toLowerCase(),
]);

/** An address, and the name that led to it. */
export interface Target {
  hostname: string;
  port: number;
  /** name that was resolved to `hostname` */
  name?: string;
}

/** Connections and requests of this host, through its proxy and with its certificate authorities. */
export class HostNetwork implements Disposable {
  readonly #proxies: Proxies;
  readonly #caCerts: string[];
  readonly #caFile?: string;
  /** requests without a proxy need no client of their own */
  readonly #isPlain: boolean;
  readonly #clients = new Map<Proxy | undefined, Deno.HttpClient>();

  /**
   * @param caCerts PEM, in addition to the system's
   * @param caFile path of the same, for child processes
   */
  constructor(
    proxies: Proxies = { noProxy: new NoProxy([]), byName: false },
    caCerts: string[] = [],
    caFile?: string,
  ) {
    this.#proxies = proxies;
    this.#caCerts = caCerts;
    this.#caFile = caFile;
    this.#isPlain = caCerts.length === 0 && VARIABLES.every((name) => !Deno.env.get(name));
  }

  /** Makes the clients now, for a process that gives up the permission to read its environment. */
  prepare(): this {
    const { https, http } = this.#proxies;
    for (const proxy of new Set([undefined, https, http])) if (proxy || !this.#isPlain) this.#clientOf(proxy);
    return this;
  }

  /** `fetch` of the host. */
  fetch(input: URL | string | Request, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
    const { noProxy, https, http } = this.#proxies;
    const proxy = noProxy.has(url.hostname, port) ? undefined : url.protocol === "https:" ? https : http;
    return fetch(
      input,
      !proxy && this.#isPlain ? init : { ...init, client: this.#clientOf(proxy) } as RequestInit,
    );
  }

  /**
   * Connects for a guest: through the proxy to the address that policy decided on, so that no name leads elsewhere; to
   * the name where the settings say so.
   *
   * @throws {SbxError} `network.proxy.failed`
   */
  async connect({ hostname, port, name }: Target, signal?: AbortSignal): Promise<Deno.TcpConn> {
    const { https, noProxy, byName } = this.#proxies;
    const isDirect = [hostname, name].some((host) => host !== undefined && noProxy.has(host, port));
    if (!https || isDirect) return await Deno.connect({ hostname, port, signal });
    return await connectThrough(https, { hostname: byName && name ? name : hostname, port }, signal);
  }

  /** Variables for child processes that connect directly, such as npm. Not for guests: may hold a password. */
  environment(): Record<string, string> {
    const { https, http, noProxy } = this.#proxies;
    const values = {
      HTTPS_PROXY: https ? urlOf(https) : "",
      HTTP_PROXY: http ? urlOf(http) : "",
      NO_PROXY: noProxy.text,
    };
    return {
      ...values,
      ...Object.fromEntries(Object.entries(values).map(([name, value]) => [name.toLowerCase(), value])),
      ...(this.#caFile && { NODE_EXTRA_CA_CERTS: this.#caFile }),
    };
  }

  /** Closes idle connections. */
  [Symbol.dispose](): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  #clientOf(proxy: Proxy | undefined): Deno.HttpClient {
    let client = this.#clients.get(proxy);
    if (!client) {
      client = withoutVariables(() =>
        Deno.createHttpClient({
          caCerts: this.#caCerts,
          poolMaxIdlePerHost: IDLE_PER_HOST_MAX,
          ...(proxy && { proxy: { url: urlOf({ ...proxy, user: undefined }), basicAuth: proxy.user } }),
        })
      );
      this.#clients.set(proxy, client);
    }
    return client;
  }
}

function urlOf({ hostname, port, user }: Proxy): string {
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  const login = user ? `${encodeURIComponent(user.username)}:${encodeURIComponent(user.password)}@` : "";
  return `http://${login}${host}:${port}`;
}

/** Hides the variables from Deno: which request goes where is decided here alone. */
function withoutVariables<T>(make: () => T): T {
  const values = VARIABLES.map((name) => [name, Deno.env.get(name)] as const);
  for (const [name, value] of values) if (value !== undefined) Deno.env.delete(name);
  try {
    return make();
  } finally {
    for (const [name, value] of values) if (value !== undefined) Deno.env.set(name, value);
  }
}

/** A network that cannot be opened: every use says why. Going around the proxy would be worse. */
export class ClosedNetwork extends HostNetwork {
  readonly #error: SbxError;

  constructor(error: SbxError) {
    super();
    this.#error = error;
  }

  override fetch(): Promise<Response> {
    return Promise.reject(this.#error);
  }

  override connect(): Promise<Deno.TcpConn> {
    return Promise.reject(this.#error);
  }

  override environment(): Record<string, string> {
    throw this.#error;
  }
}
