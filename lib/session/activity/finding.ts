import type { Finding } from "../../event/mod.ts";

/** Least time between two findings of a kind, in `ms`: a guest makes as many gaps and connections as it likes. */
const FINDING_MS = 60_000;
/** Most characters of a finding, which may repeat a guest's reason. */
const TITLE_MAX = 250;

/** Findings about the report of a guest, each kind once in a while. */
export class ReportFindings {
  readonly #report: (findings: readonly Finding[]) => void;
  readonly #found = new Map<string, number>();

  constructor(report: (findings: readonly Finding[]) => void) {
    this.#report = report;
  }

  isRecent(rule_id: string): boolean {
    return performance.now() - (this.#found.get(rule_id) ?? -Infinity) < FINDING_MS;
  }

  add(rule_id: string, event_id: string, title: string): void {
    if (this.isRecent(rule_id)) return;
    this.#found.set(rule_id, performance.now());
    this.#report([{
      finding_id: `finding-${event_id}-${rule_id}`,
      event_id,
      rule_id,
      title: title.slice(0, TITLE_MAX),
      pack_id: "sbx.builtin",
      severity: "high",
      confidence: "high",
      tags: ["activity"],
    }]);
  }
}
