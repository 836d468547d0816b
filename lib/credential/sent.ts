/** Secrets that each host was sent: its answers are searched for them. */
import { plainHost } from "../base/address/mod.ts";
import { Finder } from "./finder.ts";
import type { Vault } from "./vault.ts";

/** Secrets of one host, and the finder for them. */
interface Sent {
  refs: ReadonlySet<string>;
  finder?: Finder;
  /** finder of all secrets when it was made: another one knows others */
  of?: Finder;
}

export class SentSecrets {
  readonly #vault: Vault;
  /** by host; only a credential's own hosts ever get it, so the map stays small */
  readonly #hosts = new Map<string, Sent>();

  constructor(vault: Vault) {
    this.#vault = vault;
  }

  has(host: string): boolean {
    return this.#hosts.has(plainHost(host));
  }

  record(host: string, refs: ReadonlySet<string>): void {
    const name = plainHost(host);
    const before = this.#hosts.get(name)?.refs ?? new Set();
    const all = before.union(refs);
    if (all.size > before.size) this.#hosts.set(name, { refs: all });
  }

  /** Finder of the secrets that a host was sent; a secret may have been renewed since. */
  finderOf(host: string): Finder | undefined {
    const sent = this.#hosts.get(plainHost(host));
    if (!sent) return undefined;
    const { finder: all } = this.#vault;
    if (sent.of !== all) {
      sent.of = all;
      sent.finder = new Finder(this.#vault.secrets(sent.refs), { shapes: false });
    }
    return sent.finder;
  }
}
