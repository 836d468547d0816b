/** The result of an agent's run: its changes, the events refused by policy, the cost of its model calls. */
import type { CostReport } from "../../../lib/client/api/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { BudgetUse } from "../../../lib/policy/budget/schema.ts";
import { changesOf, noteUntaken } from "../../../lib/repo/mod.ts";
import { budgetLine, formatTotal, PRICE_HINT } from "../record/event_totals.ts";
import { eventPages, subjectWithError } from "../record/event_query.ts";
import { collectWork, VmGuest } from "../files/repository.ts";
import { formatUnanswered, type RefusedEvent, type Unanswered, unansweredOf } from "./unanswered.ts";

/** Most refused events listed one by one. */
const REFUSED_SHOWN = 10;
const MICROS = 1e6;

/** Report of one run; numbers for `--json`. */
export interface AgentReport {
  /** the VM shares a folder of the host directly */
  live: boolean;
  /** absent: the VM has a folder of the host, without a repository to compare with */
  changes?: { files: number; added: number; removed: number; commits: number };
  /** the part of the changes that no pull took */
  untaken?: { commits: number; files: number };
  /** refused events with how often each occurred */
  refused: { subject: string; times: number }[];
  /** questions of it that no one answered */
  unanswered: Unanswered[];
  cost: AgentCost;
  /** limits of `[budget]` */
  budgets: BudgetUse[];
}

/** Sum of the model calls of a session. */
export interface AgentCost {
  calls: number;
  input_tokens: number;
  /** of the input */
  cached_input_tokens: number;
  output_tokens: number;
  /** of the calls whose price is known */
  usd: number;
  unpriced_calls: number;
  /** at the price of another model */
  estimated_calls: number;
}

/** The part of a report that does not depend on the VM's files. */
export type RecordedReport = Omit<AgentReport, "live" | "changes" | "untaken">;

/** Collects the report of a running VM. */
export async function reportOf(client: Client, vm: { name: string; session: string }): Promise<AgentReport> {
  const { live } = await new VmGuest(client, vm.name).info();
  const [work, recorded] = await Promise.all([
    live && !live.is_repository ? {} : changesIn(client, vm.name),
    recordedOf(client, vm),
  ]);
  return { live: live !== undefined, ...work, ...recorded };
}

/** Collects the part of a VM's report that its record has: its work is not looked at. */
export async function recordedOf(
  client: Client,
  vm: { name: string; session: string },
): Promise<RecordedReport> {
  const [refused, { models, budgets }] = await Promise.all([
    refusedIn(client, vm.session),
    client.json<CostReport>("GET", `/sessions/${segment(vm.session)}/costs`),
  ]);
  const unanswered = await unansweredOf(client, vm, refused);
  return {
    refused: refused.map(({ subject, times }) => ({ subject, times })),
    unanswered,
    cost: sumOf(models),
    budgets,
  };
}

export function formatReport(report: AgentReport, name: string): string {
  const { live, changes, untaken, refused, unanswered, cost, budgets } = report;
  const changed = changes === undefined
    ? "has ended; what it changed is in the folder"
    : changes.files === 0
    ? "changed nothing"
    : `changed ${count(changes.files, "file")} (+${changes.added} -${changes.removed}), ${
      count(changes.commits, "commit")
    }`;
  const more = refused.length - REFUSED_SHOWN;
  return [
    `${name} ${changed}`,
    refused.length === 0 ? "nothing was refused" : `refused ${count(refused.length, "event")}:`,
    ...refused.slice(0, REFUSED_SHOWN).map(({ subject, times }) =>
      `  ${plain(subject)}${times > 1 ? ` (${times} times)` : ""}`
    ),
    ...more > 0 ? [`  and ${more} more: sbx events ${name} --decision block`] : [],
    ...formatUnanswered(unanswered),
    formatCost(cost),
    ...cost.unpriced_calls + cost.estimated_calls > 0 ? [PRICE_HINT] : [],
    ...budgets.map(budgetLine),
    ...changes && changes.files > 0
      ? [
        !live && untaken?.commits === 0 && untaken.files === 0
          ? `all of it was pulled before; sbx diff ${name} shows it`
          : `sbx review ${name} shows the changes, sbx pull ${name} takes ${live ? "their commits" : "them"}`,
      ]
      : [],
    `sbx delete ${name} removes the VM`,
  ].join("\n");
}

function formatCost(cost: AgentCost): string {
  if (cost.calls === 0) return "no model calls";
  const cached = cost.cached_input_tokens > 0 ? ` (${cost.cached_input_tokens} of them cached)` : "";
  const tokens = `${cost.input_tokens}${cached} + ${cost.output_tokens} tokens`;
  return `${count(cost.calls, "model call")}: ${tokens}, cost ${formatTotal(cost)}`;
}

async function changesIn(client: Client, name: string): Promise<Pick<AgentReport, "changes" | "untaken">> {
  await using work = await collectWork(client, name);
  const { commits, files } = await noteUntaken(work);
  const changes = { files: 0, added: 0, removed: 0, commits: 0 };
  for (const unit of work.units) {
    const { files } = await changesOf(unit);
    changes.files += files.length;
    changes.commits += unit.commits.length;
    for (const { added = 0, removed = 0 } of files) {
      changes.added += added;
      changes.removed += removed;
    }
  }
  return { changes, untaken: { commits, files } };
}

/** Refused events by subject, each with its last one. */
export async function refusedIn(
  client: Client,
  session: string,
): Promise<(RefusedEvent & { times: number })[]> {
  const bySubject = new Map<string, RefusedEvent & { times: number }>();
  for await (const page of eventPages(client, session, { denied: "true" })) {
    for (const event of page) {
      const { event_type, event_id } = objectOf(event.common);
      const subject = `${event_type} ${subjectWithError(event)} (${event.rule_id})`;
      const times = (bySubject.get(subject)?.times ?? 0) + 1;
      bySubject.set(subject, { subject, event_id: String(event_id), times });
    }
  }
  return [...bySubject.values()];
}

/** Sums up the costs of every model. */
export function sumOf(models: CostReport["models"]): AgentCost {
  const sum = (key: Exclude<keyof CostReport["models"][number], "provider" | "model" | "price_basis">) =>
    models.reduce((total, model) => total + model[key], 0);
  return {
    calls: sum("calls"),
    input_tokens: sum("input_tokens"),
    cached_input_tokens: sum("cached_input_tokens"),
    output_tokens: sum("output_tokens"),
    usd: sum("cost_micros") / MICROS,
    unpriced_calls: sum("unpriced_calls"),
    estimated_calls: sum("estimated_calls"),
  };
}
