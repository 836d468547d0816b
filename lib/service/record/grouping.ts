import type { Event } from "../../event/mod.ts";

/** Time within which lookups of one name belong together, in `ms`: clients ask for A and AAAA at once. */
const LOOKUP_MS = 5000;

/** Groups findings that people see as one: the lookups of one name, the start and the end of one program. */
export class Grouping {
  /** the last finding of each key: its group, and when its event was */
  readonly #latest = new Map<string, { group: string; at: number }>();

  /** @returns id of the first finding of the group */
  groupOf(finding: { finding_id: string; rule_id: string; pack_id: string }, event: Event): string {
    const { finding_id, rule_id, pack_id } = finding;
    const [key, ms] = keyOf(event) ?? [];
    if (key === undefined || ms === undefined) return finding_id;
    const full = JSON.stringify([pack_id, rule_id, key]);
    const at = event.common.timestamp_unix_ms;
    const before = this.#latest.get(full);
    const group = before && at - before.at <= ms ? before.group : finding_id;
    // A pid is another program after its end.
    if (event.process?.activity.operation === "exit") this.#latest.delete(full);
    else this.#latest.set(full, { group, at });
    return group;
  }
}

function keyOf({ common, dns, process, credential }: Event): [key: unknown[], ms: number] | undefined {
  if (dns) return [["dns", dns.request.qname, common.process?.executable], LOOKUP_MS];
  if (credential) {
    const { credential_ref, location, host } = credential.substitution;
    // A decoy in a name is refused once for each of its lookups.
    return host === undefined
      ? [["credential", credential_ref, location, common.process?.executable], LOOKUP_MS]
      : undefined;
  }
  if (!process) return undefined;
  const { operation, command } = process.activity;
  // The end of a program that the host started names the event of its start.
  const start = operation === "exit" ? common.labels.event_id : undefined;
  const pid = common.process?.pid;
  if (pid) return [["pid", pid, command], Infinity];
  return [["exec", start ?? common.event_id], Infinity];
}
