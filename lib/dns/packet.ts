/** What DNS packets hold, as this service works with it; `read.ts` and `write.ts` turn it from and into bytes. */
import { NAME_BYTES_MAX } from "./limit.ts";

/** One question. */
export interface Question {
  /** as it was asked: clients compare the case */
  name: string;
  type: string;
}

/** What a guest asks. */
export interface Query extends Question {
  id: number;
  /** recursion desired, checking disabled: said back as they came */
  flags: number;
  /** bytes that the client takes over UDP */
  udpBytes: number;
}

/** One record of an answer; `data` is what `dns-packet` makes of its type. */
export interface DnsRecord extends Question {
  /** seconds */
  ttl: number;
  // deno-lint-ignore no-explicit-any
  data: any;
}

/** What a resolver answered. */
export interface UpstreamAnswer {
  rcode: Rcode;
  /** it has to be asked for again over TCP */
  truncated: boolean;
  records: DnsRecord[];
  /** seconds for which the SOA says that there is nothing */
  negativeTtl?: number;
  bytes: number;
}

/** Numbers of Extended DNS Errors (RFC 8914). */
export const EDE = { OTHER: 0, BLOCKED: 15, NO_REACHABLE_AUTHORITY: 22, NETWORK_ERROR: 23 } as const;

export const RCODES = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"] as const;
export type Rcode = typeof RCODES[number];

/**
 * Types that are asked for and passed on; each is one that `dns-packet` reads and writes. HTTPS and SVCB are answered
 * here, with nothing: their `ech` would hide from inspection which host a client means, and clients do without them.
 */
export const PASSED = ["A", "AAAA", "CAA", "CNAME", "MX", "NAPTR", "NS", "PTR", "SOA", "SRV", "TXT"];
export const EMPTY: Record<string, string> = { UNKNOWN_64: "SVCB", UNKNOWN_65: "HTTPS" };

/** Whether questions of a type are answered with nothing, and never asked upstream. */
export function isAlwaysEmpty(type: string): boolean {
  return type === "SVCB" || type === "HTTPS";
}

/** Whether a name, written by a person or a rule, can be asked for. */
export function isName(name: string): boolean {
  const plain = plainName(name);
  return plain.length <= NAME_BYTES_MAX - 2 &&
    /^[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63}(\.[\x21-\x2d\x2f-\x5b\x5d-\x7e]{1,63})*$/.test(plain);
}

/** The same name, whatever its case and its last dot. */
export function sameName(a: string, b: string): boolean {
  return plainName(a) === plainName(b);
}

/** As events and memories have it: lower case, without the last dot. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}
