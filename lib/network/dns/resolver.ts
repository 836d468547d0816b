import { parseAddress } from "../../base/address/mod.ts";
import { SbxError } from "../../base/error/mod.ts";

/** Address of a DNS resolver. */
export interface Resolver {
  hostname: string;
  port: number;
}

const DNS_PORT = 53;

/** Most resolvers; resolv.conf allows three. */
const RESOLVERS_MAX = 8;

/**
 * Parses the resolvers of a setting: `192.0.2.1`, `192.0.2.1:5353`, `2001:db8::1`, `[2001:db8::1]:5353`.
 *
 * @throws {SbxError} `dns.resolver.invalid`, naming the invalid entry
 */
export function parseResolvers(list: readonly string[]): Resolver[] {
  if (list.length > RESOLVERS_MAX) {
    throw new SbxError(
      "dns.resolver.invalid",
      `${list.length} DNS resolvers, more than the limit of ${RESOLVERS_MAX}`,
    );
  }
  return list.map((text) => {
    const endpoint = parseEndpoint(text, DNS_PORT);
    if (endpoint) return endpoint;
    throw new SbxError("dns.resolver.invalid", `"${text}" is not the address of a DNS resolver`, {
      hint: "write 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:5353; names are not allowed",
    });
  });
}

/** Parses `address`, `address:port` and `[address]:port`; `undefined` for other text. */
export function parseEndpoint(text: string, defaultPort?: number): Resolver | undefined {
  const match = text.match(/^\[([0-9a-fA-F:.]+)\](?::(\d{1,5}))?$/) ??
    text.match(/^([\d.]+)(?::(\d{1,5}))?$/) ??
    text.match(/^([0-9a-fA-F:.]+)()$/);
  if (!match) return undefined;
  const [, hostname, digits] = match;
  const port = digits ? Number(digits) : defaultPort;
  const bytes = parseAddress(hostname);
  const isPlain = bytes && (bytes.length === 16 || /^\d+(\.\d+){3}$/.test(hostname));
  return isPlain && port !== undefined && port >= 1 && port <= 65_535 ? { hostname, port } : undefined;
}

/** Resolvers of this machine. Empty without any: then questions that need a resolver fail with that reason. */
export async function systemResolvers(path = "/etc/resolv.conf"): Promise<Resolver[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  const addresses = text.split("\n").flatMap((line) => line.match(/^\s*nameserver\s+(\S+)/)?.[1] ?? []);
  return addresses.flatMap((address) => parseEndpoint(address.split("%")[0], DNS_PORT) ?? [])
    .slice(0, RESOLVERS_MAX);
}
