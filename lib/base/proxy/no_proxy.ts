/** Hosts reached without a proxy, as listed in `NO_PROXY`. */
import { canonicalHost, isAddress, isInCidr, parseCidr } from "../address/mod.ts";

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
  /** entries that can match no host, with the reason; they are left out */
  readonly problems: readonly string[];
  readonly #all: boolean;
  readonly #entries: Entry[] = [];

  /** @param entries such as `example.com`, `.example.com`, `192.0.2.0/24`, `host:8080`, `*` */
  constructor(entries: readonly string[]) {
    const words = entries.map((entry) => entry.trim().toLowerCase()).filter((entry) => entry !== "");
    const problems: string[] = [];
    this.text = words.join(",");
    this.#all = words.includes("*");
    for (const word of words) {
      if (word === "*") continue;
      const entry = readEntry(word);
      if (typeof entry === "string") problems.push(`"${word}" matches no host: ${entry}`);
      else this.#entries.push(entry);
    }
    this.problems = problems;
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

/** @returns a hint for an entry that can match no host */
function readEntry(word: string): Entry | string {
  if (word.includes("://")) return "write the host without a scheme";
  if (/[;|\s]/.test(word)) return "separate entries with commas";
  const [, bare, digits] = word.match(/^(\[[^\]]+\]|[^:]+|.*\/\d+):(\d+)$/) ?? [undefined, word];
  const port = digits === undefined ? undefined : Number(digits);
  if (port !== undefined && (port < 1 || port > 65535)) return "a port is a number from 1 to 65535";
  const withPort = port === undefined ? {} : { port };
  if (bare.includes("/")) {
    const cidr = parseCidr(bare.replace(/^\[(.*)\]/, "$1"));
    return cidr ? { name: bare, cidr, ...withPort } : "write a network as 192.0.2.0/24 or 2001:db8::/32";
  }
  const plain = bare.replace(/^\*?\./, "").replace(/^\[|\]$/g, "");
  if (/^[\d.*]+$/.test(plain) && plain.includes("*")) return "write a network as 192.0.2.0/24";
  if (plain.includes("*")) return "write a name, which has the names below it too, such as example.com";
  const name = canonicalHost(plain);
  if (name === undefined || isAddress(name) && !isAddress(plain)) {
    return "write a name, an address, or a network such as 192.0.2.0/24";
  }
  return { name, ...withPort };
}
