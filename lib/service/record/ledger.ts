/** Reads the ledgers of sessions: events, programs, decisions and findings. */
import type { FindingView, HistoryResult, ListedFinding, PolicyContexts } from "../../client/api/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import {
  type EventFilter,
  type EventPage,
  type FindingFilter,
  type LedgerEvent,
  PAGE_EVENTS_MAX,
  readEvents,
  readFindingPage,
  readFindingRows,
  readWhy,
  type SessionEntry,
} from "../../ledger/read/mod.ts";
import { subjectLine } from "../../policy/decision/mod.ts";
import type { Decision } from "../../policy/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import { applyAsk, decisionOf } from "./decided.ts";
import { factsOf, type FindingExceptions } from "./exceptions.ts";
import { Grouping } from "./grouping.ts";
import { readStates } from "./triage.ts";
import type { Sessions } from "./sessions.ts";
import { isAlive, type Vm } from "../vm/vm.ts";
import { ignore } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { basename, dirname } from "node:path";
import type { Maker } from "../../ledger/sink/mod.ts";

/** Finds the path of a session's ledger. */
export type LedgerFinder = (idOrName: string) => Promise<string>;

/** A VM whose record is read. */
type RecordedVm = Pick<Vm, "paths" | "state" | "process">;

interface VmFinder {
  /** @throws {SbxError} `vm.not_found` */
  find(idOrName: string): RecordedVm;
}

/**
 * Longest wait in `ms` for a VM's process to write its last rows. A reader then gets
 * the rows that are in the file.
 */
const FLUSH_MS = timeLimit(5000);
/** The same for the records of all VMs: one without an answer must not hold up the others. */
const FLUSH_ALL_MS = timeLimit(1000);

/**
 * Makes a finder by session id or by VM name. It finds deleted VMs too: the last one of a name. The ledger of
 * a VM that runs has every event that an earlier answer named.
 */
export function ledgerFinder(vms: VmFinder, sessions: Sessions, home: Home): LedgerFinder {
  return async (idOrName) => {
    const ledger = UUID.test(idOrName) ? sessionPaths(home, idOrName).ledger : undefined;
    let vm: RecordedVm;
    try {
      vm = vms.find(idOrName);
    } catch (error) {
      if (ledger !== undefined) return ledger;
      const id = await sessions.findByName(idOrName);
      if (id === undefined) throw error;
      return sessionPaths(home, id).ledger;
    }
    // A VM whose name is the id of another session: that one's record is meant.
    if (ledger !== undefined && ledger !== vm.paths.ledger) return ledger;
    await flushRecord(vm);
    return vm.paths.ledger;
  };
}

const UUID = /^[0-9a-f-]{36}$/;

/** The call of {@linkcode flushRecord} under way, by process, and the one after it. */
const flushes = new WeakMap<Vm["process"], { now: Promise<void>; next?: Promise<void> }>();

/**
 * Waits until the rows that a VM's process holds are in its ledger: an event that an answer named can then be
 * read. Any number of readers make one call at a time.
 *
 * @param ms longest wait; the process may not answer
 */
export async function flushRecord(
  { state, process }: Pick<Vm, "state" | "process">,
  ms = FLUSH_MS,
): Promise<void> {
  if (!isAlive(state)) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([sharedFlush(process, ms), promise]);
  clearTimeout(timer);
}

/**
 * {@linkcode flushRecord} of all running VMs among some sessions, for a read of their records.
 *
 * @param vms VMs of the service
 */
export async function flushRecords(
  vms: readonly (Pick<Vm, "state" | "process"> & { record: Pick<Vm["record"], "id"> })[],
  sessions: readonly { id: string }[],
): Promise<void> {
  const ids = new Set(sessions.map(({ id }) => id));
  const chosen = vms.filter(({ record }) => ids.has(record.id));
  await Promise.all(chosen.map((vm) => flushRecord(vm, FLUSH_ALL_MS)));
}

/** A call that begins from now on: one under way may have left out this reader's event. */
function sharedFlush(process: Vm["process"], ms: number): Promise<void> {
  const flush = flushes.get(process);
  if (flush) return flush.next ??= flush.now.then(() => sharedFlush(process, ms));
  const now = flushOf(process, ms).finally(() => flushes.delete(process));
  flushes.set(process, { now });
  return now;
}

async function flushOf(process: Vm["process"], ms: number): Promise<void> {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), ms);
  await process.call({ t: "Flush" }, abort.signal).catch(
    ignore("the rows in the file can be read; the process reports a ledger that it cannot write"),
  );
  clearTimeout(timer);
}

/** Reads a page of the events of a VM's session; none before it has a ledger. */
export async function sessionEvents(
  { paths }: Pick<Vm, "paths">,
  { cursor, limit = PAGE_EVENTS_MAX }: Pick<EventFilter, "cursor" | "limit"> = {},
): Promise<EventPage> {
  if (!await hasLedger(paths.ledger)) return { events: [] };
  return await readEvents(paths.ledger, { cursor, limit });
}

/** Reads a page of the programs that were run in a VM. */
export async function sessionHistory(
  { paths }: Pick<Vm, "paths">,
  { cursor, limit }: Pick<EventFilter, "cursor" | "limit"> = {},
): Promise<HistoryResult> {
  if (!await hasLedger(paths.ledger)) return { executions: [] };
  return await historyOf(eventsOf(paths.ledger, { family: "process" }, cursor), limit);
}

function hasLedger(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

/** Yields every event of a ledger that passes the filter, reading page after page. */
export async function* eventsOf(
  ledger: string,
  filter: Omit<EventFilter, "cursor" | "limit"> = {},
  after = "0",
): AsyncGenerator<LedgerEvent> {
  for (let cursor: string | undefined = after; cursor !== undefined;) {
    const page = await readEvents(ledger, { ...filter, cursor, limit: PAGE_EVENTS_MAX });
    yield* page.events;
    cursor = page.next_cursor;
  }
}

/** A page of a session's events as fixtures of detections (docs/design/contracts/06-detection.md §6). */
export function contextsOf({ events, next_cursor }: EventPage): PolicyContexts {
  return {
    contexts: events.map(({ decision: _, rule_id: __, outcome: ___, ...context }) => {
      const { session_id, event_id, sequence, timestamp_unix_ms } = context.common;
      return {
        schema: "sbx.policy-context-fixture.v1",
        event_ref: { corpus: "session_db", session_id, event_id, sequence, timestamp_unix_ms },
        expected_labels: [],
        context,
      };
    }),
    ...(next_cursor !== undefined && { next_cursor }),
  };
}

/** The record of one event. After an ask, its decision is the one that followed the answer. */
export async function explainEvent(ledger: string, eventId: string) {
  const { record, ...why } = await readWhy(ledger, eventId);
  const decision = record && await applyAsk(ledger, record as Decision);
  return { ...why, ...(decision && { decision }) };
}

// Programs that the host ran in a VM, from the events of its session.

/** One program, from its exec event and its exit event. */
type Execution = HistoryResult["executions"][number];

/** Executions in one answer: the default, and the most. */
const HISTORY_PAGE = 1000;

/**
 * Makes a page of executions from the events of a session after its cursor, and from as many more as the
 * ends of these executions need.
 *
 * @param events process events, oldest first
 */
async function historyOf(
  events: AsyncIterable<LedgerEvent>,
  limit = HISTORY_PAGE,
): Promise<HistoryResult> {
  const executions: Execution[] = [];
  const running = new Map<string, Execution>();
  let last: string | undefined;
  let hasMore = false;
  for await (const event of events) {
    const { common, process, decision } = event;
    const activity = process?.activity;
    if (activity?.operation === "exit") {
      const execution = endedBy(event, running);
      if (!execution) continue;
      running.delete(execution.event_id);
      execution.exit_code = activity.exit_code ?? null;
      execution.duration_ms = common.timestamp_unix_ms - execution.timestamp_unix_ms;
    } else if (activity?.operation === "exec" && !hasMore) {
      hasMore = executions.length === limit;
      if (hasMore) continue;
      const { event_id, timestamp_unix_ms, sequence } = common;
      last = String(sequence);
      const { command } = activity;
      const execution = { event_id, timestamp_unix_ms, command, exit_code: null, duration_ms: null };
      executions.push(execution);
      // A program that was not run does not end.
      if (decision === undefined || decision === "allow") running.set(event_id, execution);
    }
    if (hasMore && running.size === 0) break;
  }
  return { executions, ...(hasMore && { next_cursor: last }) };
}

/** The execution that an exit event names; in ledgers of an older sbx, the oldest one of its command. */
function endedBy({ common, process }: LedgerEvent, running: Map<string, Execution>): Execution | undefined {
  const { event_id } = common.labels ?? {};
  if (event_id !== undefined) return running.get(event_id);
  return running.values().find(({ command }) => command === process?.activity.command);
}

/** Findings whose events are read at once: an event may have a megabyte. */
const BATCH = 50;

/**
 * Lists the findings of a session, oldest first, each with the time and the subject of
 * its event, and with its maker.
 */
export async function listFindings(
  ledger: string,
  sessions: Pick<Sessions, "get">,
  limit?: number,
  exceptions?: FindingExceptions,
): Promise<ListedFinding[]> {
  return (await pageOfFindings(ledger, sessions, { limit }, exceptions)).findings;
}

/** A page of the findings of a session. What belongs together is grouped within the page. */
export async function pageOfFindings(
  ledger: string,
  sessions: Pick<Sessions, "get">,
  filter: FindingFilter,
  exceptions?: FindingExceptions,
): Promise<{ findings: ListedFinding[]; next_cursor?: string }> {
  const { findings: page, next_cursor } = await readFindingPage(ledger, filter);
  const [first = 1, last = 0] = page.length === 0
    ? []
    : [page[0].row, page.at(-1)!.row].toSorted((a, b) => a - b);
  const entry = await sessions.get(basename(dirname(ledger))).catch(() => undefined);
  const [states, exceptionOf] = await Promise.all([readStates(ledger), exceptions?.finder()]);
  const grouping = new Grouping();
  const details = new Map<string, Omit<ListedFinding, keyof FindingView>>();
  for (let after = first - 1, rows = []; after < last;) {
    rows = await readFindingRows(ledger, after, BATCH);
    if (rows.length === 0) break;
    for (const row of rows) {
      if (row.row > last) break;
      const { timestamp_unix_ms, event_type, process } = row.event.common;
      const finding = row.finding as FindingView;
      const exception = exceptionOf?.(factsOf(finding, row.event, entry?.name));
      const state = states.get(finding.finding_id);
      details.set(finding.finding_id, {
        timestamp_unix_ms,
        event_type,
        subject: subjectLine(row.event),
        decision: await decisionOf(ledger, row),
        group: grouping.groupOf(finding, row.event),
        ...(process && { process: process.executable }),
        ...(state && { states: state }),
        ...(exception && { exception: exception.id }),
      });
    }
    after = rows.at(-1)!.row;
  }
  const made_by = makerOf(entry);
  const findings = page.map(({ finding }) => ({
    ...finding as unknown as ListedFinding,
    ...details.get((finding as unknown as ListedFinding).finding_id),
    ...(entry && { vm_name: entry.name }),
    ...(made_by && { made_by }),
  }));
  return { findings, ...(next_cursor !== undefined && { next_cursor }) };
}

/**
 * User, device and client of a session; undefined for one of an older sbx, and
 * for one that is not in the index.
 */
export function makerOf(entry: SessionEntry | undefined): Maker | undefined {
  const { user, device, client } = entry ?? {};
  return user === undefined || device === undefined || client === undefined
    ? undefined
    : { user, device, client };
}
