/** Ledgers for tests, with events of several families. */
import { Database, type Row } from "../../lib/ledger/database.ts";
import { type Event, type EventFamily, type EventType, familyOf } from "../../lib/event/mod.ts";
import { Ledger, type LedgerOutcome } from "../../lib/ledger/mod.ts";
import { eventCommon, httpRequest, processExec } from "./event.ts";

export const SESSION = "session-1";

const REQUESTS: Partial<Record<EventFamily, unknown>> = {
  http: httpRequest({ host: "api.example.com", path: "/v1/items" }),
  dns: { qname: "example.com", qtype: "A", transport: "udp" },
  mcp: {
    method: "tools/call",
    server_name: "files",
    tool_name: "read",
    namespaced_tool_name: "files__read",
    arguments: { path: "/x" },
  },
  model: { provider: "anthropic", api_family: "messages", model: "m-1", stream: false, operation: "chat" },
};

/** Event of a family with a request. */
export function requestEvent(event_type: EventType, request: Record<string, unknown> = {}): Event {
  const family = familyOf(event_type);
  return {
    schema_version: 1,
    common: eventCommon(event_type),
    [family]: { request: { ...REQUESTS[family] as object, ...request } },
  };
}

export function execEvent(command = "ls -l"): Event {
  return {
    schema_version: 1,
    common: eventCommon("process.exec", { source_engine: "process" }),
    process: { activity: processExec({ executable: "/bin/ls", command }) },
  };
}

/** Runs a test with the path of a ledger in a temporary folder. */
export async function withLedgerPath(run: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(`${folder}/session.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Writes `count` events and closes the ledger. @param outcomes of the first events, in order */
export async function writeEvents(
  path: string,
  count: number,
  outcomes: Partial<LedgerOutcome>[] = [],
  sessionId = SESSION,
): Promise<Event[]> {
  await using ledger = await Ledger.open(path, { sessionId });
  const events = Array.from({ length: count }, (_, at) => execEvent(`echo ${at}`));
  for (const event of events) {
    event.common.session_id = sessionId;
    ledger.append({ event });
  }
  outcomes.forEach((outcome, at) => ledger.end({ ...outcome, event_id: events[at].common.event_id }));
  return events;
}

let copies = 0;

/** Copies a closed ledger, with its seal if it has one. @returns the path of the copy */
export async function copyLedger(path: string): Promise<string> {
  const copy = `${path}.copy${++copies}`;
  await Deno.copyFile(path, copy);
  await Deno.copyFile(`${path}.seal`, `${copy}.seal`).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  return copy;
}

/** Runs SQL on a ledger's file, past the ledger. */
export async function runSql(path: string, statements: string): Promise<void> {
  const database = new Database(path);
  try {
    await database.executeMultiple(statements);
  } finally {
    database.close();
  }
}

/** Rows of a query on a ledger's file. */
export async function select(path: string, query: string): Promise<Row[]> {
  const database = new Database(path);
  try {
    return (await database.execute(query)).rows;
  } finally {
    database.close();
  }
}
