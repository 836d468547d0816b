/** How programs of this host reach the network. */
import { SbxError } from "../error/mod.ts";
import { NoProxy, type Proxies, type Proxy } from "./settings.ts";
import { closeQuietly } from "../wire/mod.ts";
import { isAbsolute } from "node:path";

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

/** A client for this machine's own ports, which no proxy can reach. Deno's own one would send their requests to it. */
export function directClient(): Deno.HttpClient {
  return withoutVariables(() => Deno.createHttpClient({}));
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

// TCP connections through a proxy: CONNECT (RFC 9110 §9.3.6).

/** Longest head of a proxy's answer, in `bytes`. */
const HEAD_MAX = 16 * 1024;
const END = "\r\n\r\n";

/**
 * Connects to a host through a proxy.
 *
 * @param to name or address, and port, that the proxy connects to
 * @throws {SbxError} `network.proxy.failed`
 */
async function connectThrough(
  proxy: Proxy,
  to: { hostname: string; port: number },
  signal?: AbortSignal,
): Promise<Deno.TcpConn> {
  const authority = `${to.hostname.includes(":") ? `[${to.hostname}]` : to.hostname}:${to.port}`;
  const { hostname, port } = proxy;
  let conn: Deno.TcpConn | undefined;
  const close = () => closeQuietly(conn);
  try {
    conn = await Deno.connect({ hostname, port, signal });
    signal?.addEventListener("abort", close);
    const fields = [`CONNECT ${authority} HTTP/1.1`, `host: ${authority}`];
    if (proxy.user) fields.push(`proxy-authorization: ${basicOf(proxy.user)}`);
    await writeAll(conn, new TextEncoder().encode(fields.join("\r\n") + END));
    const status = await readStatus(conn);
    if (status >= 200 && status < 300) return conn;
    const hint = status === 407
      ? "it wants a user and a password: network.upstream_proxy_auth_file, or in HTTPS_PROXY"
      : "ask the administrator of the proxy; network.no_proxy names hosts that need none";
    throw failed(proxy, `refused a connection to ${authority} with ${status || "an invalid answer"}`, hint);
  } catch (cause) {
    close();
    if (cause instanceof SbxError || signal?.aborted) throw cause;
    throw failed(
      proxy,
      "cannot be reached",
      "check network.upstream_proxy, or HTTPS_PROXY of the service",
      cause,
    );
  } finally {
    signal?.removeEventListener("abort", close);
  }
}

/** Value of `proxy-authorization`. */
function basicOf({ username, password }: NonNullable<Proxy["user"]>): string {
  return `Basic ${new TextEncoder().encode(`${username}:${password}`).toBase64()}`;
}

/**
 * Reads the head of the answer and not a byte more: what follows is the host's, and TLS begins on the bare connection.
 *
 * @returns the status; 0 for an invalid head
 */
async function readStatus(conn: Deno.Conn): Promise<number> {
  let head = "";
  const buffer = new Uint8Array(END.length);
  while (!head.endsWith(END)) {
    if (head.length > HEAD_MAX) return 0;
    const read = await conn.read(buffer.subarray(0, END.length - matched(head)));
    if (read === null) return 0;
    head += String.fromCharCode(...buffer.subarray(0, read));
  }
  return Number(head.match(/^HTTP\/1\.[01] (\d{3})[ \r]/)?.[1] ?? 0);
}

/** Characters of the end that the head already ends with. */
function matched(head: string): number {
  let count = END.length;
  while (!head.endsWith(END.slice(0, count))) count--;
  return count;
}

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

function failed({ hostname, port }: Proxy, what: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("network.proxy.failed", `the proxy ${hostname}:${port} ${what}`, { cause, hint });
}

// Certificate authorities of `network.extra_ca_file`.

/** Limit of a file with authorities, in `bytes`: a whole system's authorities are a quarter of a MiB. */
const CA_FILE_MAX = 4 * 1024 * 1024;

/** Reads the certificates of a PEM file, in the form that TLS clients take. */
export async function readCaFile(path: string): Promise<string[]> {
  const text = await readText(path);
  if (!/-----BEGIN CERTIFICATE-----/.test(text)) {
    throw new SbxError("network.ca_file.invalid", `${path} holds no certificate`, {
      hint: "name a PEM file: each certificate begins with -----BEGIN CERTIFICATE-----",
    });
  }
  try {
    // The runtime's own reader, which will use them.
    Deno.createHttpClient({ caCerts: [text] }).close();
  } catch (cause) {
    throw new SbxError("network.ca_file.invalid", `a certificate in ${path} is damaged`, {
      cause,
      hint: `openssl x509 -in ${path} -noout -text shows the first one`,
    });
  }
  return [text];
}

async function readText(path: string): Promise<string> {
  if (!isAbsolute(path)) {
    throw new SbxError("network.ca_file.invalid", `"${path}" is not an absolute path`, {
      hint: "begin it with /",
    });
  }
  try {
    const { isFile, size } = await Deno.stat(path);
    if (isFile && size <= CA_FILE_MAX) return await Deno.readTextFile(path);
  } catch (cause) {
    const gone = cause instanceof Deno.errors.NotFound;
    throw new SbxError(
      gone ? "network.ca_file.not_found" : "network.ca_file.invalid",
      gone ? `there is no file ${path}` : `${path} cannot be read`,
      { cause, hint: "name a PEM file with certificates that you may read" },
    );
  }
  throw new SbxError(
    "network.ca_file.invalid",
    `${path} is not a file of certificates: it has more than ${CA_FILE_MAX} bytes or is not a regular file`,
  );
}
