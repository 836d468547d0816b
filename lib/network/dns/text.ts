import { canonicalHost } from "../../base/address/mod.ts";
import { ANSWER_TEXT_MAX } from "./limit.ts";
import { type DnsRecord, plainName } from "./packet.ts";

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
