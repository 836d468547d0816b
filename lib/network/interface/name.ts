/**
 * Name port: the network asks it about the names and addresses of a guest (docs/design/contracts/05-policy.md
 * §5). Implemented by lib/network/dns.
 */

/** Names that a guest resolved. Names are lower case without the last dot; addresses are plain text. */
export interface NamePort {
  /** True when a DNS answer of this guest maps the name to the address. */
  agrees(name: string, address: string): boolean;
  /** Name for which this guest last received the address. */
  nameOf(address: string): string | undefined;
  /**
   * Resolves a name for a request of the host, or for a host that a rule set. A `dns.query` event, decided on like the
   * guest's own queries.
   *
   * @returns at least one address
   * @throws {SbxError} `policy.blocked` and the errors of the resolver
   */
  lookup(name: string, actor: "vm" | "host"): Promise<string[]>;
}
