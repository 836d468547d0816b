/**
 * Names that lead to an address of the user's choice: in `network.upstream_overrides`, for tests and labs,
 * and `NAME.host.sbx` for a port of this machine's loopback.
 */
import { HOST_ZONE, isHostZone, plainHost } from "../../base/address/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { parseEndpoint, type Resolver } from "./resolver.ts";

/** Address that connections to an overridden name go to. */
export type OverrideTarget = Resolver;

interface Override {
  address: string;
  /** by port; 0 for every port */
  targets: Map<number, OverrideTarget>;
}

/**
 * Networks for made-up addresses, one per name: documentation networks (RFC 5737) have no hosts on the
 * internet, and policy does not count them as private.
 */
const NETWORKS = ["203.0.113.", "198.51.100."];
const NAMES_MAX = NETWORKS.length * 254;

const NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

/** Overridden names, each with a made-up address that only this guest knows. */
export class Overrides {
  readonly #byName = new Map<string, Override>();
  readonly #byAddress = new Map<string, string>();

  /**
   * @param list `name=ip:port` for every port of a name, `name:port=ip:port` for one port; no wildcards
   * @param services ports of this machine's loopback, by the first label of their name
   * @throws {SbxError} `network.override.invalid`, naming the invalid entry
   */
  static parse(list: readonly string[], services: readonly { name: string; port: number }[] = []): Overrides {
    const overrides = new Overrides();
    for (const text of list) overrides.#add(text);
    for (const { name, port } of services) {
      overrides.#add(`${name}.${HOST_ZONE}:${port}=127.0.0.1:${port}`, true);
    }
    return overrides;
  }

  /** Made-up address of a name; `undefined` for names without override. */
  addressOf(name: string): string | undefined {
    return this.#byName.get(plainHost(name))?.address;
  }

  /** Name of a made-up address. */
  nameOf(address: string): string | undefined {
    return this.#byAddress.get(address);
  }

  /**
   * Target of a connection to a name; `undefined` for names and ports without override.
   *
   * @throws {SbxError} `upstream.failed`: a service of this machine that the profile does not name
   */
  target(name: string, port: number): OverrideTarget | undefined {
    const targets = this.#byName.get(plainHost(name))?.targets;
    const target = targets?.get(port) ?? targets?.get(0);
    if (target !== undefined || !isHostZone(name)) return target;
    throw new SbxError("upstream.failed", `${plainHost(name)} has no port ${port} for this VM`, {
      hint: `name it in the profile: [host] services = ["${plainHost(name).split(".")[0]}:${port}"]`,
    });
  }

  #add(text: string, isService = false): void {
    const [from, to, more] = text.split("=");
    const [, name, port] = from.trim().match(/^(.*?)(?::(\d{1,5}))?$/)!;
    if (to === undefined || more !== undefined) {
      throw invalidError(text, "does not have the form name=ip:port");
    }
    const key = plainHost(name);
    if (!NAME.test(key) || /^[\d.]+$/.test(key)) {
      throw invalidError(text, `overrides "${name}", which is not a plain host name`);
    }
    if (isHostZone(key) && !isService) {
      throw invalidError(text, `overrides ${key}, a name of this machine's services`);
    }
    const target = parseEndpoint(to.trim());
    if (!target) throw invalidError(text, `leads to "${to.trim()}", which is not an address with a port`);
    const fromPort = Number(port ?? 0);
    if (port !== undefined && (fromPort < 1 || fromPort > 65_535)) {
      throw invalidError(text, `has the invalid port ${port}`);
    }
    const override = this.#byName.get(key) ?? this.#addName(key, text);
    if (override.targets.has(fromPort)) throw invalidError(text, `overrides ${from.trim()} a second time`);
    override.targets.set(fromPort, target);
  }

  #addName(name: string, text: string): Override {
    const at = this.#byName.size;
    if (at >= NAMES_MAX) throw invalidError(text, `exceeds the limit of ${NAMES_MAX} names`);
    const address = `${NETWORKS[Math.floor(at / 254)]}${at % 254 + 1}`;
    const override = { address, targets: new Map() };
    this.#byName.set(name, override);
    this.#byAddress.set(address, name);
    return override;
  }
}

function invalidError(text: string, fault: string): SbxError {
  return new SbxError("network.override.invalid", `network.upstream_overrides: "${text}" ${fault}`, {
    hint: 'write "name=127.0.0.1:8443", or "name:443=127.0.0.1:8443" for one port',
  });
}
