/** Notifications of findings on the desktop. */
import { plain } from "../../base/print/mod.ts";
import { SEVERITIES, type Severity } from "../../detection/mod.ts";
import type { Finding } from "../../event/mod.ts";
import { type Board, escapeMarkup } from "./asks.ts";

/** Most characters of a title that are shown, and of a failure. */
const TITLE_SHOWN = 200, PROBLEM_SHOWN = 200;
/** Fewest `ms` between two notifications: a guest decides how often it is found. */
const INTERVAL_MS = 5_000;

interface FindingNotifierOptions {
  /** the setting `app.notifications` */
  isOn(): boolean;
  /** the setting `alerts.severity` */
  least(): Severity;
  board(): Promise<Board>;
  /** reports why notifications cannot be shown; once, until the reason changes */
  report(problem: string): void;
}

/**
 * Shows findings of a severity and up, and counts others that come meanwhile. An
 * answer to a finding is always shown.
 */
export class FindingNotifier {
  readonly #options: FindingNotifierOptions;
  #last = -Infinity;
  #skipped = 0;
  #problem = "";

  constructor(options: FindingNotifierOptions) {
    this.#options = options;
  }

  /** @param vm its name */
  take(vm: string, finding: Pick<Finding, "severity" | "rule_id" | "pack_id" | "title" | "event_id">): void {
    const { isOn, least } = this.#options;
    if (!isOn() || SEVERITIES.indexOf(finding.severity) < SEVERITIES.indexOf(least())) return;
    const isAnswer = finding.rule_id === "response" && finding.pack_id === "sbx.builtin";
    if (!isAnswer) {
      if (performance.now() - this.#last < INTERVAL_MS) return void this.#skipped++;
      this.#last = performance.now();
    }
    const more = this.#skipped > 0 ? `\n${this.#skipped} more: sbx findings ${vm}` : "";
    this.#skipped = 0;
    const title = plain(finding.title).slice(0, TITLE_SHOWN);
    this.#show({
      title: `sbx: ${finding.severity} finding in ${vm}`,
      body: escapeMarkup(`${title}\nsbx why ${finding.event_id}${more}`),
    }).catch((error) => this.#fail(error));
  }

  async #show(texts: { title: string; body: string }): Promise<void> {
    await (await this.#options.board()).show({ ...texts, actions: {} }, () => {});
  }

  #fail(error: unknown): void {
    const problem = plain(error instanceof Error ? error.message : String(error)).slice(0, PROBLEM_SHOWN);
    if (problem !== this.#problem) this.#options.report(problem);
    this.#problem = problem;
  }
}
