/** The network of one VM: TCP, TLS and HTTP of its guest, and requests of its host (docs/network.md). */
export {
  type BodyFilter,
  type BodyPlace,
  type Broker,
  CredentialDenied,
  type Destination,
  type Injected,
  type Substituted,
} from "./port/broker.ts";
export type { ByteStream } from "./connection.ts";
export type { Header } from "./message/header.ts";
export { type HostRequest, NetBlocked } from "./exchange/host.ts";
export { TIMEOUTS, type Timeouts } from "./limit.ts";
export type { ModelCall, ModelRequest, Models } from "./port/model.ts";
export type { Names } from "./port/names.ts";
export type { NetOptions } from "./options.ts";
export { NetProxy, type Open } from "./proxy.ts";
export type { Target } from "./upstream/upstream.ts";
