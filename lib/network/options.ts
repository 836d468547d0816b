import type { Ca } from "./ca/mod.ts";
import type { Gate } from "../policy/mod.ts";
import type { NetTimeouts } from "./limit.ts";
import type { CredentialPort, ModelPort, NamePort } from "./interface/mod.ts";
import type { DialAddress, TcpConnector } from "./upstream/upstream.ts";

/** Parts and settings of the network of one VM. */
export interface NetOptions {
  gate: Gate;
  ca: Ca;
  names: NamePort;
  broker: CredentialPort;
  models?: ModelPort;
  /** Address for a host of `network.upstream_overrides`; `undefined` leaves the address that policy decided on. */
  dialOverride?(host: string, port: number): DialAddress | undefined;
  /** PEM; roots for verifying upstreams, in addition to the roots that this process was started with */
  caCerts?: readonly string[];
  /** Opens a connection, such as through a proxy; absent: directly. */
  connect?: TcpConnector;
  timeouts?: Partial<NetTimeouts>;
}
