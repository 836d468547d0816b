/** `network.upstream_overrides`: names that lead to an endpoint of the user's choice, for tests and labs. */
import { SbxError } from "../base/error/mod.ts";
import { plainName } from "./packet.ts";
import { parseEndpoint, type Resolver } from "./resolver.ts";

/** Where a connection really goes. */
export type Target = Resolver;

interface Override {
  address: string;
  /** by port; 0 is any */
  targets: Map<number, Target>;
}

/**
 * Networks kept for documentation (RFC 5737): nothing on the Internet has their addresses, and policy does not take
 * them for private ones. Each name gets one.
 */
const NETWORKS = ["203.0.113.", "198.51.100."];
const NAMES_MAX = NETWORKS.length * 254;

const NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

/** The names that are overridden, each with an address of its own that only this guest knows. */
export class Overrides {
  readonly #byName = new Map<string, Override>();
  readonly #byAddress = new Map<string, string>();

  /**
   * @param list `name=ip:port` for every port of a name, `name:port=ip:port` for one; no wildcards
   * @throws {SbxError} `network.override.invalid` naming the one that is wrong
   */
  static parse(list: readonly string[]): Overrides {
    const overrides = new Overrides();
    for (const text of list) overrides.#add(text);
    return overrides;
  }

  /** The made-up address of a name; `undefined` for names that are not overridden. */
  addressOf(name: string): string | undefined {
    return this.#byName.get(plainName(name))?.address;
  }

  /** The name that a made-up address stands for. */
  nameOf(address: string): string | undefined {
    return this.#byAddress.get(address);
  }

  /** Where a connection to a name goes; `undefined` where the name, or this port of it, is not overridden. */
  target(name: string, port: number): Target | undefined {
    const targets = this.#byName.get(plainName(name))?.targets;
    return targets?.get(port) ?? targets?.get(0);
  }

  #add(text: string): void {
    const [from, to, more] = text.split("=");
    const [, name, port] = from.trim().match(/^(.*?)(?::(\d{1,5}))?$/)!;
    if (to === undefined || more !== undefined) throw invalid(text, "is not of the form name=ip:port");
    const key = plainName(name);
    if (!NAME.test(key) || /^[\d.]+$/.test(key)) {
      throw invalid(text, `overrides "${name}", which is not a plain host name`);
    }
    const target = parseEndpoint(to.trim());
    if (!target) throw invalid(text, `leads to "${to.trim()}", which is not an address with a port`);
    const from_port = Number(port ?? 0);
    if (port !== undefined && (from_port < 1 || from_port > 65_535)) {
      throw invalid(text, `has no port ${port}`);
    }
    const override = this.#byName.get(key) ?? this.#make(key, text);
    if (override.targets.has(from_port)) throw invalid(text, `overrides ${from.trim()} a second time`);
    override.targets.set(from_port, target);
  }

  #make(name: string, text: string): Override {
    const at = this.#byName.size;
    if (at >= NAMES_MAX) throw invalid(text, `is one name too many; ${NAMES_MAX} are possible`);
    const address = `${NETWORKS[Math.floor(at / 254)]}${at % 254 + 1}`;
    const override = { address, targets: new Map() };
    this.#byName.set(name, override);
    this.#byAddress.set(address, name);
    return override;
  }
}

function invalid(text: string, why: string): SbxError {
  return new SbxError("network.override.invalid", `network.upstream_overrides: "${text}" ${why}`, {
    hint: 'write "name=127.0.0.1:8443", or "name:443=127.0.0.1:8443" for one port',
  });
}
