/** Hosts that are reached without a proxy, as `NO_PROXY` lists them. */
import { isAddress, isInCidr, parseCidr } from "../base/address/mod.ts";

/** Hosts of this machine: no proxy can reach them. */
const LOOPBACK = /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)$/i;

/** One entry: a name with those below it, an address, or a network; with a port for that port only. */
interface Entry {
  name: string;
  cidr?: NonNullable<ReturnType<typeof parseCidr>>;
  port?: number;
}

/** List of hosts; loopback is always one of them. */
export class NoProxy {
  /** as `NO_PROXY` has it */
  readonly text: string;
  readonly #all: boolean;
  readonly #entries: Entry[];

  /** @param entries such as `example.com`, `.example.com`, `192.0.2.0/24`, `host:8080`, `*` */
  constructor(entries: readonly string[]) {
    const words = entries.map((entry) => entry.trim().toLowerCase()).filter((entry) => entry !== "");
    this.text = words.join(",");
    this.#all = words.includes("*");
    this.#entries = words.map(entryOf);
  }

  /** Tests one host, by its name or address. */
  has(host: string, port: number): boolean {
    if (this.#all || LOOPBACK.test(host)) return true;
    const name = host.replace(/^\[|\]$/g, "").replace(/\.$/, "").toLowerCase();
    return this.#entries.some((entry) => {
      if (entry.port !== undefined && entry.port !== port) return false;
      if (entry.cidr) return isInCidr(name, entry.cidr);
      return name === entry.name || (!isAddress(name) && name.endsWith(`.${entry.name}`));
    });
  }
}

function entryOf(word: string): Entry {
  const cidr = word.includes("/") ? parseCidr(word) : undefined;
  if (cidr) return { name: word, cidr };
  const [, bare, port] = word.match(/^(\[[^\]]+\]|[^:]+):(\d+)$/) ?? [undefined, word];
  const name = bare.replace(/^\*?\./, "").replace(/^\[|\]$/g, "");
  return { name, ...(port !== undefined && { port: Number(port) }) };
}
