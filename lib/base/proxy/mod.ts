/**
 * The host's way to the network: its proxy, and its certificate authorities (docs/concepts/network.md, "A
 * proxy").
 */
export { readCaFile } from "./ca_file.ts";
export {
  hostEnvironment,
  hostFetch,
  hostNetwork,
  type HostNetworkSettings,
  openHostNetwork,
  useHostNetwork,
} from "./current.ts";
export { ClosedNetwork, HostNetwork, type Target } from "./host_network.ts";
export { NoProxy } from "./no_proxy.ts";
export { noProxyProblem, type ProxySettings, readProxies } from "./settings.ts";
