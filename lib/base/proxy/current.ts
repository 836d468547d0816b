/** The network of this process. One for all: a part that forgot the proxy would go around it. */
import { asSbxError } from "../error/mod.ts";
import { ClosedNetwork, HostNetwork, readCaFile } from "./host_network.ts";
import { type ProxySettings, readProxies } from "./settings.ts";

/** Settings of the host's network. */
export interface HostNetworkSettings {
  proxy?: ProxySettings;
  /** path of a PEM file */
  extra_ca_file?: string;
}

let current: Promise<HostNetwork> | undefined;

/** The network of this process; before {@linkcode useHostNetwork}, that of the environment. */
export function hostNetwork(): Promise<HostNetwork> {
  return current ??= openHostNetwork({}).catch((error) =>
    new ClosedNetwork(asSbxError(error, "reading the proxy"))
  );
}

/** Opens a network by the settings. @throws {SbxError} `network.proxy.invalid`, `network.ca_file.*` */
export async function openHostNetwork(
  { proxy = {}, extra_ca_file }: HostNetworkSettings,
): Promise<HostNetwork> {
  const [proxies, caCerts] = await Promise.all([
    readProxies(proxy),
    extra_ca_file === undefined ? [] : readCaFile(extra_ca_file),
  ]);
  return new HostNetwork(proxies, caCerts, extra_ca_file);
}

/** Activates settings for all further requests. With invalid ones every request fails, and reports why. */
export function useHostNetwork(settings: HostNetworkSettings): void {
  current = openHostNetwork(settings).catch((error) =>
    new ClosedNetwork(asSbxError(error, "reading the proxy"))
  );
}

/** Variables for a child process with its own connections, such as npm. @throws {SbxError} as requests do */
export async function hostEnvironment(): Promise<Record<string, string>> {
  return (await hostNetwork()).environment();
}

/** `fetch` on the network of this process. */
export async function hostFetch(input: URL | string | Request, init?: RequestInit): Promise<Response> {
  return await (await hostNetwork()).fetch(input, init);
}
