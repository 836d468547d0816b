/** The network settings of a VM, read and checked: before the VM is made, and when its network opens. */
import { isAbsolute } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { Overrides, parseResolvers, type Resolver, systemResolvers } from "../../network/dns/mod.ts";
import { HostNetwork, readCaFile, readProxies } from "../../base/proxy/mod.ts";
import { BUILT_IN_PRICES, loadPrices, type Prices } from "../../network/model/mod.ts";
import type { Contract } from "../files/contract.ts";

/** Network settings, ready for use. */
export interface NetworkConfig {
  resolvers: Resolver[];
  overrides: Overrides;
  /** PEM */
  caCerts: string[];
  prices: Prices;
  /** guests get HTTP/2 too */
  http2: boolean;
  /** events of WebSockets have their messages */
  recordsMessages: boolean;
  /** way to upstreams */
  host: HostNetwork;
}

/**
 * Reads the network settings of a contract.
 *
 * @throws {SbxError} `network.proxy.invalid`, `dns.resolver.invalid`, `network.override.invalid`,
 * `network.ca_file.invalid`, `network.ca_file.not_found`, `model.prices.invalid`,
 * `model.prices.not_found`, each naming the setting
 */
export async function readNetworkConfig(
  { resolvers, overrides, host_services, extra_ca_file, price_file, proxy, http2 = true, websocket_messages }:
    Contract["network"],
): Promise<NetworkConfig> {
  const [resolverList, overrideTable, caCerts, prices, proxies] = await Promise.all([
    readSetting(
      "network.dns_resolvers",
      () => resolvers.length > 0 ? parseResolvers(resolvers) : systemResolvers(),
    ),
    readSetting("network.upstream_overrides", () => Overrides.parse(overrides, host_services)),
    readSetting("network.extra_ca_file", () => extra_ca_file === undefined ? [] : readCaFile(extra_ca_file)),
    readSetting(
      "network.model_price_file",
      () =>
        price_file === undefined
          ? BUILT_IN_PRICES
          : loadPrices(requireAbsolute(price_file, "model.prices.invalid")),
    ),
    readSetting("network.upstream_proxy", () => readProxies(proxy ?? {})),
  ]);
  return {
    resolvers: resolverList,
    overrides: overrideTable,
    caCerts,
    prices,
    http2,
    recordsMessages: websocket_messages === true,
    host: new HostNetwork(proxies, caCerts),
  };
}

/** Reads the value of one setting; an error names the setting. */
async function readSetting<T>(setting: string, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    if (!(cause instanceof SbxError)) throw cause;
    const { code, message, hint } = cause;
    throw new SbxError(code, message.startsWith(`${setting}:`) ? message : `${setting}: ${message}`, {
      cause,
      hint: [hint, `sbx settings explain ${setting} shows where it is set`].filter(Boolean).join("; "),
    });
  }
}

/** Refuses a relative path: the VM's process has a working folder of its own. */
function requireAbsolute(path: string, code: string): string {
  if (isAbsolute(path)) return path;
  throw new SbxError(code, `"${path}" is not an absolute path`, { hint: "begin it with /" });
}
