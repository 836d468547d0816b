/** What an agent did, when it has ended: its changes, what policy refused, and the cost of its model calls. */
import { objectOf } from "../../lib/base/object/mod.ts";
import { plain } from "../../lib/base/print/mod.ts";
import { count } from "../../lib/base/text/mod.ts";
import type { Client } from "../../lib/client/mod.ts";
import { changesOf } from "../../lib/repo/mod.ts";
import { eventPages } from "./event_pages.ts";
import { type ListedEvent, subjectWithError } from "./event_row.ts";
import { collectWork } from "./repository.ts";

/** Most refused events that are listed one by one. */
const REFUSED_SHOWN = 10;
const MICROS = 1e6;

/** Report of one run; numbers for `--json`. */
export interface AgentReport {
  changes: { files: number; added: number; removed: number; commits: number };
  /** refused events with how often each occurred */
  refused: { subject: string; times: number }[];
  cost: { calls: number; input_tokens: number; output_tokens: number; usd: number };
}

/** Collects the report of a running VM. */
export async function reportOf(client: Client, vm: { name: string; session: string }): Promise<AgentReport> {
  const [changes, refused, cost] = await Promise.all([
    changesIn(client, vm.name),
    refusedIn(client, vm.session),
    costOf(client, vm.session),
  ]);
  return { changes, refused, cost };
}

export function formatReport({ changes, refused, cost }: AgentReport, name: string): string {
  const { files, added, removed, commits } = changes;
  const changed = files === 0
    ? "changed nothing"
    : `changed ${count(files, "file")} (+${added} -${removed}), ${count(commits, "commit")}`;
  const calls = `${count(cost.calls, "model call")}: ${cost.input_tokens} + ${cost.output_tokens} tokens, ` +
    `about $${cost.usd.toFixed(4)}`;
  const more = refused.length - REFUSED_SHOWN;
  return [
    `${name} ${changed}`,
    refused.length === 0 ? "nothing was refused" : `refused ${count(refused.length, "event")}:`,
    ...refused.slice(0, REFUSED_SHOWN).map(({ subject, times }) =>
      `  ${plain(subject)}${times > 1 ? ` (${times} times)` : ""}`
    ),
    ...more > 0 ? [`  and ${more} more: sbx events ${name} --decision block`] : [],
    calls,
    ...files > 0 ? [`sbx review ${name} shows the changes, sbx pull ${name} takes them`] : [],
    `sbx delete ${name} removes the VM`,
  ].join("\n");
}

async function changesIn(client: Client, name: string): Promise<AgentReport["changes"]> {
  await using work = await collectWork(client, name);
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
  return changes;
}

async function refusedIn(client: Client, session: string): Promise<AgentReport["refused"]> {
  const times = new Map<string, number>();
  for await (const page of eventPages(client, session, { denied: "true" })) {
    for (const event of page) {
      const subject = `${objectOf(event.common).event_type} ${subjectWithError(event)} (${event.rule_id})`;
      times.set(subject, (times.get(subject) ?? 0) + 1);
    }
  }
  return [...times].map(([subject, times]) => ({ subject, times }));
}

async function costOf(client: Client, session: string): Promise<AgentReport["cost"]> {
  const cost = { calls: 0, input_tokens: 0, output_tokens: 0, usd: 0 };
  for await (const page of eventPages(client, session, { family: "model" })) {
    for (const event of page) {
      const response = responseOf(event);
      cost.calls++;
      cost.input_tokens += numberOf(response.input_tokens);
      cost.output_tokens += numberOf(response.output_tokens);
      cost.usd += numberOf(response.estimated_cost_micros) / MICROS;
    }
  }
  return cost;
}

function responseOf(event: ListedEvent): Record<string, unknown> {
  return objectOf(objectOf(event.model).response);
}

const numberOf = (value: unknown) => typeof value === "number" ? value : 0;
