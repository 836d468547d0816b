/**
 * The host's way to the network: its proxy, and its certificate authorities (docs/concepts/network.md, "A
 * proxy").
 */
export {
  hostEnvironment,
  hostFetch,
  hostNetwork,
  type HostNetworkSettings,
  openHostNetwork,
  useHostNetwork,
} from "./current.ts";
export { directClient } from "./direct.ts";
export { ClosedNetwork, HostNetwork, readCaFile, type Target } from "./host_network.ts";
export { untrustedIssuer } from "./issuer.ts";
export { NoProxy, noProxyProblem, type ProxySettings, readProxies } from "./settings.ts";
