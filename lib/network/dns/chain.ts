import { CHAIN_MAX } from "./limit.ts";
import { type DnsQuestion, type DnsRecord, plainName } from "./packet.ts";

/** Records of an answer that belong to its question, along its CNAMEs; a resolver may send unrelated ones. */
export function chainOf({ name, type }: DnsQuestion, records: readonly DnsRecord[]): DnsRecord[] {
  const chain: DnsRecord[] = [];
  const seen = new Set<string>();
  for (let owner = plainName(name); !seen.has(owner) && seen.size < CHAIN_MAX;) {
    seen.add(owner);
    const owned = records.filter((record) => plainName(record.name) === owner);
    chain.push(...owned.filter((record) => record.type === type));
    const alias = type === "CNAME" ? undefined : owned.find((record) => record.type === "CNAME");
    if (!alias) break;
    chain.push(alias);
    owner = plainName(alias.data);
  }
  return chain;
}
