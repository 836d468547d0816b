/** Drafts of DNS events (docs/design/contracts/05-policy.md §5). */
import { canonicalHost } from "../../base/address/mod.ts";
import { processOf } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { DnsAnswer } from "./cache.ts";
import { type DnsQuestion, type DnsRecord, plainName } from "./packet.ts";
import { ANSWER_TEXT_MAX } from "./limit.ts";

/** Client of a query, as the guest reports it: for the event only. */
export interface DnsClient {
  proto: "udp" | "tcp";
  /** empty when unknown */
  process_name: string;
}

export type Actor = "vm" | "host";

/** Drafts the event of a question. @param answer its answer, if it needs no resolver: then one decision is enough */
export function draftOf(
  { name, type }: DnsQuestion,
  client: DnsClient,
  actor: Actor,
  answer?: DnsAnswer,
): Draft {
  const process = processOf(client.process_name);
  return {
    common: { event_type: "dns.query", source_engine: "network", actor, ...(process && { process }) },
    dns: {
      request: { qname: qnameOf(name), qtype: type, transport: client.proto },
      ...(answer && { response: responseOf(answer) }),
    },
  };
}

/** Name of a question in its event: as rules match hosts, where it can be a host. */
export function qnameOf(name: string): string {
  return canonicalHost(name) ?? plainName(name);
}

/** Response object of an event. */
export function responseOf({ rcode, records }: DnsAnswer): { rcode: string; answers: string[] } {
  return { rcode, answers: records.map(answerText) };
}

/**
 * Text of a record in an event (docs/design/contracts/05-policy.md §5, `dns.response.answers`): an address, a
 * name, or its text.
 */
export function answerText({ type, data }: DnsRecord): string {
  return textOf(type, data).slice(0, ANSWER_TEXT_MAX);
}

// deno-lint-ignore no-explicit-any -- dns-packet gives each type of record another form
function textOf(type: string, data: any): string {
  switch (type) {
    case "A":
    case "AAAA":
      return canonicalHost(data) ?? data;
    case "CNAME":
    case "NS":
    case "PTR":
      return plainName(data);
    case "MX":
      return plainName(data.exchange);
    case "SRV":
      return plainName(data.target);
    case "SOA":
      return plainName(data.mname);
    case "NAPTR":
      return plainName(data.replacement);
    case "CAA":
      return `${data.tag} ${data.value}`;
    default:
      // TXT: strings of one text
      return data.map((part: Uint8Array) => new TextDecoder().decode(part)).join("");
  }
}
