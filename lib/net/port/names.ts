/** What the network asks of DNS; lib/dns implements it. */

/** The names that a guest was told of. Names are lower case without the last dot, addresses are plain text. */
export interface Names {
  /** Whether a DNS answer that this guest got says that the name is at the address. */
  agrees(name: string, address: string): boolean;
  /** The name that this guest got the address for, the latest of several. */
  nameOf(address: string): string | undefined;
  /**
   * Addresses of a name, for requests that the host makes itself and for hosts that a rule put in. It is a `dns.query`
   * event, decided on like the guest's own.
   *
   * @throws {SbxError} when policy refuses the query or its answer, or there is no answer
   */
  lookup(name: string, actor: "vm" | "host"): Promise<string[]>;
}
