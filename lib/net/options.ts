import type { Ca } from "../ca/mod.ts";
import type { Gate } from "../policy/mod.ts";
import type { Broker } from "./port/broker.ts";
import type { Timeouts } from "./limit.ts";
import type { Models } from "./port/model.ts";
import type { Names } from "./port/names.ts";
import type { Target } from "./upstream/upstream.ts";

/** What the network of one VM is made of. */
export interface NetOptions {
  gate: Gate;
  ca: Ca;
  names: Names;
  broker: Broker;
  models?: Models;
  /**
   * Where a connection is really made to (`network.upstream_overrides`); `undefined` leaves it at the address that
   * policy looked at.
   */
  target?(host: string, port: number): Target | undefined;
  /** PEM; roots that upstreams are verified against, beside those that this process was started with */
  caCerts?: readonly string[];
  timeouts?: Partial<Timeouts>;
}
