/**
 * The proxy of this host: from the settings, else from the environment (docs/design/contracts/03-settings.md
 * §3, "Proxy").
 */
import { isAbsolute } from "node:path";
import { SbxError } from "../error/mod.ts";
import { accessProblem } from "../home/mod.ts";
import { limitedOutput } from "../spawn/mod.ts";
import { timeLimit } from "../time/mod.ts";
import { PacFile, type Sought } from "./pac.ts";
import { systemProxy } from "./system.ts";
import { log } from "../log/mod.ts";
import { canonicalHost, isAddress, isInCidr, parseCidr } from "../address/mod.ts";

/** Longest file with a user and a password, in `bytes`. */
const AUTH_FILE_MAX = 4096;

/** Values of the settings `network.upstream_proxy` and those beside it. */
export interface ProxySettings {
  /**
   * `http://`, `https://` or `socks5://` with `HOST:PORT`; `pac+` and the address of a PAC file;
   * `system`: the one of the system's settings; `none`: no proxy, whatever the environment says;
   * absent: that of the environment
   */
  url?: string;
  /** hosts without a proxy, in place of `NO_PROXY` */
  no_proxy?: string[];
  /** file with `USER:PASSWORD` */
  auth_file?: string;
  /** program that prints a token of `Negotiate` for a proxy */
  auth_program?: string;
  /** guests' connections are requested by name, which the proxy resolves */
  by_name?: boolean;
}

/** A proxy. Its password is in no message. */
export interface Proxy {
  /** protocol between this machine and the proxy */
  scheme: "http" | "https" | "socks5";
  hostname: string;
  port: number;
  user?: { username: string; password: string };
}

/** A proxy, or `undefined`: a direct connection. */
export type Way = Proxy | undefined;

/** Value of `proxy-authorization` for a proxy, new for each connection. */
export type ProxyLogin = (proxy: Proxy) => Promise<string>;

/** Proxies of this host. */
export interface Proxies {
  /** finds the ways to an address, in the order in which they are tried, in place of `https` and `http` */
  find?: (sought: Sought, caCerts: string[]) => Promise<Way[]>;
  login?: ProxyLogin;
  /** for https, and for connections */
  https?: Proxy;
  /** for plain http */
  http?: Proxy;
  noProxy: NoProxy;
  byName: boolean;
}

type Env = { get(name: string): string | undefined };

/**
 * Reads the settings, or the environment where they are empty.
 *
 * @throws {SbxError} `network.proxy.invalid`
 */
export async function readProxies(settings: ProxySettings, env: Env = Deno.env): Promise<Proxies> {
  const { url = "", no_proxy = [], auth_file, auth_program, by_name = false } = settings;
  const login = auth_program === undefined ? undefined : await loginBy(auth_program);
  const more = { byName: by_name, ...(login && { login }) };
  if (url === "") return { ...fromEnvironment(env), ...more };
  const noProxy = readNoProxy(no_proxy, "network.no_proxy");
  if (url === "none") return { noProxy, ...more };
  const user = auth_file === undefined ? undefined : await readUser(auth_file);
  if (url.startsWith(PAC) || url === "system") {
    const found = url === "system" ? await systemProxy() : { pac: url.slice(PAC.length) };
    if (found.pac === undefined) {
      const { https, http, ignored = [] } = found;
      const parse = (text?: string) => {
        const proxy = text === undefined ? undefined : parseProxy(text, "the system's proxy");
        return proxy && { ...proxy, ...(user && { user }) };
      };
      const words = [...no_proxy, ...ignored];
      return { https: parse(https), http: parse(http), noProxy: new NoProxy(words), ...more };
    }
    const file = new PacFile(found.pac);
    const find = async (sought: Sought, caCerts: string[]) =>
      (await file.find(sought, caCerts)).map((text) => {
        const proxy = text === undefined ? undefined : parseProxy(text, "the PAC file");
        return proxy && { ...proxy, ...(user && { user }) };
      });
    return { find, noProxy, ...more };
  }
  const proxy = parseProxy(url, "network.upstream_proxy");
  if (proxy.user) {
    throw invalid(
      "network.upstream_proxy holds a password",
      "put USER:PASSWORD into a file of mode 0600, and name it: network.upstream_proxy_auth_file",
    );
  }
  const complete = { ...proxy, ...(user && { user }) };
  return { https: complete, http: complete, noProxy, ...more };
}

/** Proxies as most programs find them: names in lower case first. */
function fromEnvironment(env: Env): Omit<Proxies, "byName"> {
  const valueOf = (name: string) => env.get(name.toLowerCase()) || env.get(name);
  const proxyOf = (name: string) => {
    const text = valueOf(name) || valueOf("ALL_PROXY");
    return text ? parseProxy(text.includes("://") ? text : `http://${text}`, name) : undefined;
  };
  const [https, http] = [proxyOf("HTTPS_PROXY"), proxyOf("HTTP_PROXY")];
  const words = (valueOf("NO_PROXY") ?? "").split(/[\s,]+/);
  const noProxy = https || http ? readNoProxy(words, "NO_PROXY") : new NoProxy(words);
  return { ...(https && { https }), ...(http && { http }), noProxy };
}

/** Warns of entries that can match nothing: their hosts go through the proxy, the safe way. */
function readNoProxy(words: readonly string[], source: string): NoProxy {
  const noProxy = new NoProxy(words);
  for (const problem of noProxy.problems) log.warn(`${source}: ${problem}`);
  return noProxy;
}

/** Describes the first entry of `network.no_proxy` that can match no host. */
export function noProxyProblem(entries: readonly string[]): string | undefined {
  return new NoProxy(entries).problems[0];
}

/** Schemes of proxies, with their ports. */
const PORTS: Record<string, { scheme: Proxy["scheme"]; port: number }> = {
  "http:": { scheme: "http", port: 80 },
  "https:": { scheme: "https", port: 443 },
  "socks5:": { scheme: "socks5", port: 1080 },
  // The name that curl has for the same, where the proxy resolves names.
  "socks5h:": { scheme: "socks5", port: 1080 },
};
/** Beginning of the address of a PAC file. */
const PAC = "pac+";

/** URL of a proxy, with its password. */
export function urlOf({ scheme, hostname, port, user }: Proxy): string {
  const host = hostname.includes(":") ? `[${hostname}]` : hostname;
  const login = user ? `${encodeURIComponent(user.username)}:${encodeURIComponent(user.password)}@` : "";
  return `${scheme}://${login}${host}:${port}`;
}

/** Longest time for the program that prints a token, in `ms`, and most `bytes` of it. */
const LOGIN_MS = timeLimit(20_000), LOGIN_MAX = 64 * 1024;

/** A program that logs in, such as by Kerberos (docs/concepts/network.md, "A proxy"). */
async function loginBy(path: string): Promise<ProxyLogin> {
  const hint = "name a program that only you or root can change: network.upstream_proxy_auth_program";
  if (!isAbsolute(path)) throw invalid(`"${path}" is not an absolute path`, hint);
  const info = await Deno.stat(path).catch(() => null);
  if (!info?.isFile || ((info.mode ?? 0) & 0o111) === 0) throw invalid(`${path} is not a program`, hint);
  const refused = accessProblem(path, info, { keep: "unchanged", root: "owns" });
  if (refused) throw invalid(`${path} ${refused.problem}`, refused.hint);
  return async ({ hostname }) => {
    const { success, stdout } = await limitedOutput(path, { args: [hostname], cwd: "/" }, {
      bytes: LOGIN_MAX,
      ms: LOGIN_MS,
    });
    const token = stdout.trim();
    if (success && /^[A-Za-z0-9+/]+={0,2}$/.test(token)) return `Negotiate ${token}`;
    throw new SbxError("network.proxy.failed", `${path} printed no token for the proxy ${hostname}`, {
      hint: `run ${path} ${hostname} by hand; with Kerberos, klist shows whether you have a ticket`,
    });
  };
}

function parseProxy(text: string, source: string): Proxy {
  const url = URL.parse(text);
  // Without the text: it may hold a password.
  if (
    !url || !Object.hasOwn(PORTS, url.protocol) || url.hostname === "" ||
    // An option of the program that logs in.
    url.hostname.startsWith("-") || !/^\/?$/.test(url.pathname) ||
    url.search ||
    url.hash
  ) {
    throw invalid(
      `${source} is not http://HOST:PORT`,
      "name an HTTP proxy with CONNECT as http:// or https://, or socks5://HOST:PORT; pac+https://… is a PAC file",
    );
  }
  const { scheme, port } = PORTS[url.protocol];
  const proxy = { scheme, hostname: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || port) };
  if (!url.username && !url.password) return proxy;
  return { ...proxy, user: { username: decode(url.username), password: decode(url.password) } };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Reads the file with user and password. */
async function readUser(path: string): Promise<Proxy["user"]> {
  const hint = "write USER:PASSWORD on one line, and chmod 600 the file";
  if (!isAbsolute(path)) throw invalid(`"${path}" is not an absolute path`, hint);
  const info = await Deno.stat(path).catch(() => null);
  if (!info?.isFile || info.size > AUTH_FILE_MAX) {
    throw invalid(`${path} is not a file with USER:PASSWORD`, hint);
  }
  const refused = accessProblem(path, info, { keep: "secret", root: "shares" });
  if (refused) throw invalid(`${path} ${refused.problem}`, refused.hint);
  const line = await Deno.readTextFile(path).then((text) => text.replace(/\r?\n$/, ""), () => "");
  const colon = line.indexOf(":");
  // deno-lint-ignore no-control-regex -- what a header cannot hold
  if (colon < 1 || /[\x00-\x1f\x7f]/.test(line)) throw invalid(`${path} does not hold USER:PASSWORD`, hint);
  return { username: line.slice(0, colon), password: line.slice(colon + 1) };
}

function invalid(message: string, hint: string): SbxError {
  return new SbxError("network.proxy.invalid", message, { hint });
}

// Hosts reached without a proxy, as listed in `NO_PROXY`.

/** Hosts of this machine: no proxy can reach them. */
const LOOPBACK = /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/i;

/** One entry: a name with those below it, an address, or a network; with a port for that port only. */
interface Entry {
  name: string;
  cidr?: NonNullable<ReturnType<typeof parseCidr>>;
  port?: number;
}

/** List of hosts; loopback is always one of them. */
export class NoProxy {
  /** as `NO_PROXY` has it */
  readonly text: string;
  /** entries that can match no host, with the reason; they are left out */
  readonly problems: readonly string[];
  readonly #all: boolean;
  readonly #entries: Entry[] = [];

  /** @param entries such as `example.com`, `.example.com`, `192.0.2.0/24`, `host:8080`, `*` */
  constructor(entries: readonly string[]) {
    const words = entries.map((entry) => entry.trim().toLowerCase()).filter((entry) => entry !== "");
    const problems: string[] = [];
    this.text = words.join(",");
    this.#all = words.includes("*");
    for (const word of words) {
      if (word === "*") continue;
      const entry = readEntry(word);
      if (typeof entry === "string") problems.push(`"${word}" matches no host: ${entry}`);
      else this.#entries.push(entry);
    }
    this.problems = problems;
  }

  /** Tests one host, by its name or address. */
  has(host: string, port: number): boolean {
    if (this.#all || LOOPBACK.test(host)) return true;
    const name = host.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
    return this.#entries.some((entry) => {
      if (entry.port !== undefined && entry.port !== port) return false;
      if (entry.cidr) return isInCidr(name, entry.cidr);
      return name === entry.name || (!isAddress(name) && name.endsWith(`.${entry.name}`));
    });
  }
}

/** @returns a hint for an entry that can match no host */
function readEntry(word: string): Entry | string {
  if (word.includes("://")) return "write the host without a scheme";
  if (/[;|\s]/.test(word)) return "separate entries with commas";
  const [, bare, digits] = word.match(/^(\[[^\]]+\]|[^:]+|.*\/\d+):(\d+)$/) ?? [undefined, word];
  const port = digits === undefined ? undefined : Number(digits);
  if (port !== undefined && (port < 1 || port > 65535)) return "a port is a number from 1 to 65535";
  const withPort = port === undefined ? {} : { port };
  if (bare.includes("/")) {
    const cidr = parseCidr(bare.replace(/^\[(.*)\]/, "$1"));
    return cidr ? { name: bare, cidr, ...withPort } : "write a network as 192.0.2.0/24 or 2001:db8::/32";
  }
  const plain = bare.replace(/^\*?\./, "").replace(/^\[|\]$/g, "");
  if (/^[\d.*]+$/.test(plain) && plain.includes("*")) return "write a network as 192.0.2.0/24";
  if (plain.includes("*")) return "write a name, which has the names below it too, such as example.com";
  const name = canonicalHost(plain);
  if (name === undefined || isAddress(name) && !isAddress(plain)) {
    return "write a name, an address, or a network such as 192.0.2.0/24";
  }
  return { name, ...withPort };
}
