/**
 * The network of one VM: TCP, TLS and HTTP of its guest, and requests of its host (docs/concepts/network.md).
 */
export {
  type BodyFilter,
  type BodyPlace,
  CredentialDenied,
  type CredentialPort,
  type Destination,
  type Injected,
  type MessageFilter,
  type MessagePlace,
  type ModelCall,
  type ModelPort,
  type ModelRequest,
  type NamePort,
  type Substituted,
} from "./interface/mod.ts";
export type { ByteStream } from "./connection.ts";
export type { Header } from "./message/header.ts";
export { type HostRequest, RequestBlocked } from "./exchange/host.ts";
export type { NetTimeouts } from "./limit.ts";
export { type NetOptions, NetProxy, type TcpOpen } from "./proxy.ts";
export type { DialAddress } from "./upstream/upstream.ts";
