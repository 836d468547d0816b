/** Contents of DNS packets; `read.ts` decodes them, `write.ts` encodes them. */
import { NAME_BYTES_MAX } from "./limit.ts";

/** A DNS question. */
export interface DnsQuestion {
  /** in the case of the query: clients compare it */
  name: string;
  type: string;
}

/** A query of the guest. */
export interface DnsQuery extends DnsQuestion {
  id: number;
  /** recursion desired, checking disabled: copied to the answer */
  flags: number;
  /** longest UDP answer that the client accepts, in `bytes` */
  udpBytes: number;
}

/** A record of an answer; `data` has the form that `dns-packet` gives its type. */
export interface DnsRecord extends DnsQuestion {
  /** in `s` */
  ttl: number;
  // deno-lint-ignore no-explicit-any -- dns-packet gives each type of record another form
  data: any;
}

/** Answer of a resolver. */
export interface ResolverAnswer {
  rcode: Rcode;
  /** has to be queried again over TCP */
  truncated: boolean;
  records: DnsRecord[];
  /** TTL of a missing name or type, from the SOA, in `s` */
  negativeTtl?: number;
  bytes: number;
}

/** Numbers of Extended DNS Errors (RFC 8914). */
export const EDE = { OTHER: 0, BLOCKED: 15, NO_REACHABLE_AUTHORITY: 22, NETWORK_ERROR: 23 } as const;

export const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"] as const;
export type Rcode = typeof RCODES[number];

/**
 * Types that are resolved and relayed; `dns-packet` supports each of them. HTTPS and SVCB get empty answers: their `ech`
 * would hide the client's host from inspection, and clients work without them.
 */
export const SUPPORTED_TYPES = ["A", "AAAA", "CAA", "CNAME", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "TXT"];
export const EMPTY_TYPES: Record<string, string> = { UNKNOWN_64: "SVCB", UNKNOWN_65: "HTTPS" };

/** True for types that get empty answers, without a resolver. */
export function isAlwaysEmpty(type: string): boolean {
  return type === "SVCB" || type === "HTTPS";
}

/** True for names that can be queried; names may come from a person or a rule. */
export function isName(name: string): boolean {
  const plain = plainName(name);
  return plain.length <= NAME_BYTES_MAX - 2 &&
    /^[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63}(\.[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63})*$/.test(plain);
}

/** Compares names without case and last dot. */
export function sameName(a: string, b: string): boolean {
  return plainName(a) === plainName(b);
}

/** Name in lower case, without the last dot. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
