/** How programs of this host reach the network. */
import { SbxError } from "../error/mod.ts";
import { NoProxy, type Proxies, type Proxy, urlOf, type Way } from "./settings.ts";
import { VARIABLES, withoutVariables } from "./direct.ts";
import { Relay } from "./relay.ts";
import { connectThrough, ProxyUnreachable } from "./tunnel.ts";
import { isAbsolute } from "node:path";

/** Idle connections kept for one host. */
const IDLE_PER_HOST_MAX = 64;
/** Stands for the relay of a network whose proxies are found for each address. */
const RELAYED: Proxy = { scheme: "http", hostname: "localhost", port: 0 };

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
  #relay?: Relay;

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
    const { https, http, find } = this.#proxies;
    for (const proxy of new Set([undefined, https, http, find && RELAYED])) {
      if (proxy || !this.#isPlain) this.#clientOf(proxy);
    }
    return this;
  }

  /** `fetch` of the host. */
  fetch(input: URL | string | Request, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input instanceof Request ? input.url : input);
    const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
    const { noProxy, https, http, find } = this.#proxies;
    const proxy = noProxy.has(url.hostname, port)
      ? undefined
      : find
      ? RELAYED
      : url.protocol === "https:"
      ? https
      : http;
    return fetch(
      input,
      !proxy && this.#isPlain ? init : { ...init, client: this.#clientOf(proxy) } as RequestInit,
    );
  }

  /**
   * Connects for a guest: through the proxy to the address that policy decided on, so that no name leads
   * elsewhere; to the name where the settings say so.
   *
   * @throws {SbxError} `network.proxy.failed`
   */
  async connect({ hostname, port, name }: Target, signal?: AbortSignal): Promise<Deno.TcpConn> {
    const ways = await untilAborted(this.#waysTo({ hostname, port, name }), signal);
    return await this.#connectBy(ways, { hostname, port, ...(this.#proxies.byName && { name }) }, signal);
  }

  /** Proxies for a target, in the order in which they are tried; `undefined` is a direct connection. */
  async #waysTo({ hostname, port, name }: Target, scheme = port === 80 ? "http" : "https"): Promise<Way[]> {
    const { https, find, noProxy } = this.#proxies;
    if ([hostname, name].some((host) => host !== undefined && noProxy.has(host, port))) return [undefined];
    if (!find) return [https];
    return await find({
      scheme,
      host: name ?? hostname,
      port,
      ...(name !== undefined && { address: hostname }),
    }, this.#caCerts);
  }

  /** @param to with a name that proxies are asked for in place of the address */
  async #connectBy(ways: readonly Way[], to: Target, signal?: AbortSignal): Promise<Deno.TcpConn> {
    let failure: unknown;
    for (const way of ways) {
      try {
        if (!way) return await Deno.connect({ hostname: to.hostname, port: to.port, signal });
        const asked = { hostname: to.name ?? to.hostname, port: to.port };
        return await connectThrough(way, asked, this.#proxies.login, this.#caCerts, signal);
      } catch (error) {
        failure ??= error;
        // One that refuses has decided: another would go around it.
        if (signal?.aborted || way && !(error instanceof ProxyUnreachable)) throw error;
      }
    }
    throw failure;
  }

  /**
   * Variables for child processes that connect directly, such as npm. Not for guests: may hold a password.
   */
  environment(): Record<string, string> {
    const { https, http, find, noProxy } = this.#proxies;
    const urlFor = (proxy?: Proxy) =>
      find || proxy && this.#isRelayed(proxy) ? this.#relayed().url : proxy && urlOf(proxy);
    const values = {
      HTTPS_PROXY: urlFor(https) ?? "",
      HTTP_PROXY: urlFor(http) ?? "",
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
    this.#relay?.[Symbol.dispose]();
  }

  /**
   * True for a proxy that only {@linkcode connectThrough} can use: Deno's
   * client and programs know plain ones.
   */
  #isRelayed(proxy: Proxy): boolean {
    return proxy === RELAYED || proxy.scheme !== "http" || this.#proxies.login !== undefined;
  }

  #relayed(): Relay {
    return this.#relay ??= new Relay(async (scheme, to) => {
      const ways = scheme === "http" && !this.#proxies.find
        ? [this.#proxies.http]
        : await this.#waysTo(to, scheme);
      return await this.#connectBy(ways, to);
    });
  }

  #clientOf(proxy: Proxy | undefined): Deno.HttpClient {
    let client = this.#clients.get(proxy);
    if (!client) {
      const used = proxy && this.#isRelayed(proxy) ? this.#relayed().proxy : proxy;
      client = withoutVariables(() =>
        Deno.createHttpClient({
          caCerts: this.#caCerts,
          poolMaxIdlePerHost: IDLE_PER_HOST_MAX,
          ...(used && { proxy: { url: urlOf({ ...used, user: undefined }), basicAuth: used.user } }),
        })
      );
      this.#clients.set(proxy, client);
    }
    return client;
  }
}

/** A PAC file has its own time, which may be longer than the one of a connection. */
async function untilAborted<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal?.removeEventListener("abort", abort);
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
