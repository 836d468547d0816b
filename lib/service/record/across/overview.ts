/** One answer for a home page: an hour of counts, the newest event and the costs of each VM. */
import { SbxError } from "../../../base/error/mod.ts";
import type { Overview } from "../../../client/api/mod.ts";
import { countEvents, type ModelCosts, readCosts, readEvents } from "../../../ledger/read/mod.ts";
import { costsAcross } from "./costs.ts";
import { countAcross, STEPS_MAX, tooManySteps } from "./counts.ts";
import { mayHave, type RecordedSession } from "./merge.ts";

/** Records that are read at a time: each opens its database. */
const AT_ONCE = 4;

/** Begin of the counts of each VM and of the day, unix `ms`, and the `ms` of a step. */
export interface OverviewTerms {
  since: number;
  step: number;
  today: number;
}

/**
 * Reads the overview of a home.
 *
 * @param sessions all of them: deleted VMs count for the day
 * @param vms ids of the VMs that have a row
 * @param max steps of all VMs
 * @throws {SbxError} `request.invalid`: too many steps
 */
export async function overviewOf(
  sessions: readonly RecordedSession[],
  vms: ReadonlySet<string>,
  { since, step, today }: OverviewTerms,
  max = STEPS_MAX,
): Promise<Overview> {
  let left = max;
  const onStep = () => {
    if (--left < 0) throw tooManySteps(max);
  };
  const rows: Overview["vms"] = [];
  const unreadable = new Set<string>();
  const waiting = sessions.filter(({ id }) => vms.has(id));
  const work = async () => {
    for (let session = waiting.shift(); session; session = waiting.shift()) {
      try {
        rows.push(await rowOf(session, { since, step, onStep }));
      } catch (error) {
        if (error instanceof SbxError && error.code === "request.invalid") throw error;
        // A session without a boot has no ledger, and nothing that could be missing.
        if (!(error instanceof SbxError && error.code === "ledger.not_found")) unreadable.add(session.id);
      }
    }
  };
  // After a refusal too, no record is read any more.
  const works = await Promise.allSettled(Array.from({ length: AT_ONCE }, work));
  for (const done of works) if (done.status === "rejected") throw done.reason;
  const day = await countAcross(sessions, { since: today }, DAY_MS);
  for (const id of day.unreadable) unreadable.add(id);
  const sum = (of: "events" | "denied") => day.steps.reduce((all, counts) => all + counts[of], 0);
  const costs = await costsAcross(sessions, today);
  for (const id of costs.unreadable) unreadable.add(id);
  return {
    today: { events: sum("events"), denied: sum("denied"), ...totalOf(costs.days) },
    vms: rows.sort((a, b) => a.id < b.id ? -1 : 1),
    unreadable: [...unreadable],
  };
}

/** One step of the day's counts, `ms`: they are added up. */
const DAY_MS = 24 * 3600 * 1000;

async function rowOf(
  session: RecordedSession,
  { since, step, onStep }: { since: number; step: number; onStep: () => void },
): Promise<Overview["vms"][number]> {
  const { id, ledger } = session;
  const steps = new Map<number, { at_unix_ms: number; events: number; denied: number; asked: number }>();
  if (mayHave(session, { since })) {
    await countEvents(ledger, { since }, step, ({ at, decision, events }) => {
      if (!steps.has(at)) onStep();
      const row = steps.get(at) ?? { at_unix_ms: at, events: 0, denied: 0, asked: 0 };
      row.events += events;
      if (decision === "block") row.denied += events;
      if (decision === "ask") row.asked += events;
      steps.set(at, row);
    });
  }
  const [{ events: [last] }, models] = await Promise.all([
    readEvents(ledger, { order: "newest", limit: 1 }),
    readCosts(ledger),
  ]);
  return {
    id,
    steps: [...steps.values()].sort((a, b) => a.at_unix_ms - b.at_unix_ms),
    ...(last && { last: last as unknown as Record<string, unknown> }),
    ...totalOf(models),
  };
}

function totalOf(models: readonly ModelCosts[]) {
  const total = (of: "calls" | "cost_micros" | "unpriced_calls") =>
    models.reduce((all, model) => all + model[of], 0);
  return {
    calls: total("calls"),
    cost_micros: total("cost_micros"),
    unpriced_calls: total("unpriced_calls"),
  };
}
