/** Drafts of DNS events (docs/design/contracts/05-policy.md §5). */
import { canonicalHost } from "../../base/address/mod.ts";
import { processOf } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type { DnsAnswer } from "./cache.ts";
import { type DnsQuestion, plainName } from "./packet.ts";
import { answerText } from "./text.ts";

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
