import { CHAIN_MAX } from "./limit.ts";
import { type DnsRecord, plainName, type Question } from "./packet.ts";

/** The records of an answer that belong to its question, along its CNAMEs; a resolver may send what it likes beside them. */
export function chainOf({ name, type }: Question, records: readonly DnsRecord[]): DnsRecord[] {
  const chain: DnsRecord[] = [];
  const seen = new Set<string>();
  for (let owner = plainName(name); !seen.has(owner) && seen.size < CHAIN_MAX;) {
    seen.add(owner);
    const own = records.filter((record) => plainName(record.name) === owner);
    chain.push(...own.filter((record) => record.type === type));
    const alias = type === "CNAME" ? undefined : own.find((record) => record.type === "CNAME");
    if (!alias) break;
    chain.push(alias);
    owner = plainName(alias.data);
  }
  return chain;
}
