/** Things that wait for a person, over all VMs. */
import type { AskView, ListedFinding, SystemStatus, VmListed } from "../../api/routes.ts";
import { hrefOf } from "../../app/route.ts";
import { text } from "../../text/en.ts";
import { stateOf } from "../vm/findings/group.ts";

export type NeedKind = keyof typeof text.overview.kinds;

/** One thing, and where it is done. */
export interface Need {
  id: string;
  kind: NeedKind;
  /** severity of a finding */
  severity?: string;
  what: string;
  vm?: string;
  at?: string | number;
  href: string;
}

/** A finding with its session. */
export type FoundFinding = ListedFinding & { session_id: string };

/** Severities that do not wait for a calm hour. */
const URGENT = ["critical", "high"];

export interface NeedFacts {
  asks: AskView[];
  vms: VmListed[];
  findings: FoundFinding[];
  update?: SystemStatus["update"];
}

/** Findings of one rule in one session, the newest first: a person reads them as one thing. */
function groupsOf(findings: FoundFinding[]): FoundFinding[][] {
  const keyOf = ({ session_id, rule_id, title }: FoundFinding) =>
    JSON.stringify([session_id, rule_id, title]);
  return [...Map.groupBy(findings, keyOf).values()];
}

/** The most urgent first: programs that wait, VMs that are held back, findings, then work and updates. */
export function needsOf({ asks, vms, findings, update }: NeedFacts): Need[] {
  const words = text.overview;
  const names = new Map(vms.map(({ id, name }) => [id, name]));
  const urgent = findings.filter((finding) =>
    stateOf(finding) === "open" && URGENT.includes(finding.severity)
  );
  return [
    ...asks.toReversed().map(({ ask_id, session_id, subject, created_at }): Need => ({
      id: ask_id,
      kind: "ask",
      what: subject,
      vm: names.get(session_id),
      at: created_at,
      href: `${hrefOf("inbox")}?ask=${encodeURIComponent(ask_id)}`,
    })),
    ...vms.filter(({ response }) => response !== undefined).map(({ id, name }): Need => ({
      id,
      kind: "hold",
      what: words.held(name),
      vm: name,
      href: hrefOf("vm", name, "findings"),
    })),
    ...groupsOf(urgent.toReversed()).map(([finding, ...others]): Need => ({
      id: finding.finding_id,
      kind: "finding",
      severity: finding.severity,
      what: others.length > 0 ? words.times(finding.title, others.length + 1) : finding.title,
      vm: names.get(finding.session_id) ?? finding.vm_name,
      at: finding.timestamp_unix_ms,
      href: names.has(finding.session_id)
        ? hrefOf("vm", names.get(finding.session_id)!, "findings")
        : hrefOf("session", finding.session_id, "findings"),
    })),
    ...vms.flatMap(({ id, name, folder }): Need[] =>
      folder?.untaken && folder.untaken.files > 0
        ? [{
          id: `work ${id}`,
          kind: "work",
          what: words.untaken(name, folder.untaken.files),
          vm: name,
          at: folder.untaken.at,
          href: hrefOf("vm", name, "changes"),
        }]
        : []
    ),
    ...(update?.last_check?.sbx
      ? [{
        id: "update",
        kind: "update" as const,
        what: words.update(update.last_check.sbx),
        href: hrefOf("status"),
      }]
      : []),
  ];
}
