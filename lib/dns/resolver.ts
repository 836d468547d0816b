import { SbxError } from "../base/error/mod.ts";
import { parseAddress } from "../policy/mod.ts";

/** Where questions are sent. */
export interface Resolver {
  hostname: string;
  port: number;
}

const DNS_PORT = 53;

/** Most resolvers that are used; a machine's own resolv.conf knows three. */
const RESOLVERS_MAX = 8;

/**
 * Resolvers as a setting lists them: `192.0.2.1`, `192.0.2.1:5353`, `2001:db8::1`, `[2001:db8::1]:5353`.
 *
 * @throws {SbxError} `dns.resolver.invalid` naming the one that is wrong
 */
export function parseResolvers(list: readonly string[]): Resolver[] {
  if (list.length > RESOLVERS_MAX) {
    throw new SbxError("dns.resolver.invalid", `${list.length} DNS resolvers are more than ${RESOLVERS_MAX}`);
  }
  return list.map((text) => {
    const endpoint = parseEndpoint(text, DNS_PORT);
    if (endpoint) return endpoint;
    throw new SbxError("dns.resolver.invalid", `"${text}" is not the address of a DNS resolver`, {
      hint: "write 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:5353; names are not possible",
    });
  });
}

/** `address`, `address:port`, `[address]:port`. @returns `undefined` when it is something else */
export function parseEndpoint(text: string, defaultPort?: number): Resolver | undefined {
  const match = text.match(/^\[([0-9a-fA-F:.]+)\](?::(\d{1,5}))?$/) ??
    text.match(/^([\d.]+)(?::(\d{1,5}))?$/) ??
    text.match(/^([0-9a-fA-F:.]+)()$/);
  if (!match) return undefined;
  const [, hostname, digits] = match;
  const port = digits ? Number(digits) : defaultPort;
  const bytes = parseAddress(hostname);
  const plain = bytes && (bytes.length === 16 || /^\d+(\.\d+){3}$/.test(hostname));
  return plain && port !== undefined && port >= 1 && port <= 65_535 ? { hostname, port } : undefined;
}

/** The resolvers of this machine. Empty when it names none: then every question that is not known fails, and says so. */
export async function systemResolvers(path = "/etc/resolv.conf"): Promise<Resolver[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  const named = text.split("\n").map((line) => line.match(/^\s*nameserver\s+(\S+)/)?.[1]).filter((name) =>
    name !== undefined
  );
  return named.map((name) => parseEndpoint(name.split("%")[0], DNS_PORT)).filter((found) =>
    found !== undefined
  )
    .slice(0, RESOLVERS_MAX);
}
