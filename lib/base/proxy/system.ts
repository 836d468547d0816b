/** The proxy of the system's settings: of the desktop (GNOME's, which others keep too), or of macOS. */
import { SbxError } from "../error/mod.ts";
import { limitedOutput } from "../spawn/mod.ts";
import { timeLimit } from "../time/mod.ts";

/** Longest time of the program that prints the settings, in `ms`, and most `bytes` of them. */
const READ_MS = timeLimit(10_000), READ_MAX = 256 * 1024;

/** Proxies as URLs, or a PAC file; neither: direct connections. */
export interface SystemProxy {
  pac?: string;
  https?: string;
  http?: string;
  /** hosts that need no proxy, in the words of `NO_PROXY` */
  ignored?: string[];
}

/** Reads the settings. @throws {SbxError} `network.proxy.invalid`: the system has none that can be read */
export async function systemProxy(): Promise<SystemProxy> {
  const [program, ...args] = Deno.build.os === "darwin"
    ? ["scutil", "--proxy"]
    : ["gsettings", "list-recursively", "org.gnome.system.proxy"];
  try {
    const { success, stdout, stderr } = await limitedOutput(program, { args, cwd: "/" }, {
      bytes: READ_MAX,
      ms: READ_MS,
    });
    if (!success) throw new Error(stderr.trim().slice(0, 200));
    return Deno.build.os === "darwin" ? parseScutil(stdout) : parseGsettings(stdout);
  } catch (cause) {
    throw new SbxError("network.proxy.invalid", "the system's proxy settings cannot be read", {
      cause,
      hint:
        `${program} prints them, where it is installed and a desktop keeps them; else name the proxy, or none`,
    });
  }
}

/** `org.gnome.system.proxy.http host 'proxy'`, a line each. */
export function parseGsettings(text: string): SystemProxy {
  const values = new Map<string, string>();
  for (const line of text.split("\n")) {
    const [, table, key, value] = /^org\.gnome\.system\.proxy(\.\w+)? ([\w-]+) (.*)$/.exec(line) ?? [];
    if (key !== undefined) values.set(`${table ?? ""}.${key}`, value.replace(/^'(.*)'$/, "$1"));
  }
  const mode = values.get(".mode");
  if (mode === undefined) throw new Error("they have no mode");
  if (mode === "auto") {
    const pac = values.get(".autoconfig-url");
    // Discovery in the network would let anyone there name the proxy.
    if (!pac) throw new Error("their PAC file has no address");
    return { pac };
  }
  if (mode !== "manual") return {};
  const proxy = (table: string, scheme: string) => {
    const [host, port] = [values.get(`${table}.host`), values.get(`${table}.port`)];
    return host && Number(port) > 0
      ? `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`
      : undefined;
  };
  const socks = proxy(".socks", "socks5");
  const http = proxy(".http", "http") ?? socks, https = proxy(".https", "http") ?? socks;
  const ignored = [...(values.get(".ignore-hosts") ?? "").matchAll(/'([^']*)'/g)].map(([, host]) => host);
  return { ...(http && { http }), ...(https && { https }), ignored };
}

/** `  HTTPSProxy : proxy`, a line each. */
export function parseScutil(text: string): SystemProxy {
  const values = new Map([...text.matchAll(/^ {2}(\w+) : (.*)$/gm)].map(([, key, value]) => [key, value]));
  if (values.get("ProxyAutoConfigEnable") === "1") {
    const pac = values.get("ProxyAutoConfigURLString");
    if (!pac) throw new Error("their PAC file has no address");
    return { pac };
  }
  const proxy = (name: string, scheme: string) =>
    values.get(`${name}Enable`) === "1" && values.get(`${name}Proxy`)
      ? `${scheme}://${values.get(`${name}Proxy`)}:${values.get(`${name}Port`) ?? "80"}`
      : undefined;
  const socks = proxy("SOCKS", "socks5");
  const http = proxy("HTTP", "http") ?? socks, https = proxy("HTTPS", "http") ?? socks;
  const list = /ExceptionsList : <array> \{\n([^}]*)\}/.exec(text)?.[1] ?? "";
  const ignored = [...list.matchAll(/^ *\d+ : (.*)$/gm)].map(([, host]) => host);
  return { ...(http && { http }), ...(https && { https }), ignored };
}
