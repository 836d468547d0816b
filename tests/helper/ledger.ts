/** Ledgers to look at: events of several families, and a folder that is gone afterwards. */
import { createClient, type Row } from "@libsql/client/sqlite3";
import { type Event, type EventFamily, type EventType, newEventId } from "../../lib/event/mod.ts";
import { Ledger, type LedgerOutcome } from "../../lib/ledger/mod.ts";

export const SESSION = "session-1";

const REQUESTS: Partial<Record<EventFamily, unknown>> = {
  http: {
    method: "GET",
    scheme: "https",
    host: "api.example.com",
    port: 443,
    path: "/v1/items",
    query: "",
    url: "https://api.example.com/v1/items",
    bytes: 0,
    headers: {},
    body: { state: "missing", truncated: false },
  },
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

/** An event whose family has a request. */
export function requestEvent(event_type: EventType, request: Record<string, unknown> = {}): Event {
  const family = event_type.slice(0, event_type.indexOf(".")) as EventFamily;
  return {
    schema_version: 1,
    common: commonOf(event_type),
    [family]: { request: { ...REQUESTS[family] as object, ...request } },
  };
}

export function execEvent(command = "ls -l"): Event {
  return {
    schema_version: 1,
    common: { ...commonOf("process.exec"), source_engine: "process" },
    process: {
      activity: { operation: "exec", executable: "/bin/ls", command, argv: command.split(" "), cwd: "/root" },
    },
  };
}

function commonOf(event_type: EventType): Event["common"] {
  return {
    event_id: newEventId(),
    event_type,
    session_id: SESSION,
    vm_id: "vm-1",
    profile_id: "code",
    profile_revision: "1.0.0",
    timestamp_unix_ms: 1_700_000_000_000,
    sequence: 0,
    source_engine: "network",
    enforceability: "inline_blockable",
    actor: "vm",
    labels: {},
  };
}

export async function inFolder(run: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(`${folder}/session.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A closed ledger of so many events; every outcome ends the event of its place. */
export async function filled(
  path: string,
  count: number,
  outcomes: Partial<LedgerOutcome>[] = [],
): Promise<Event[]> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  const events = Array.from({ length: count }, (_, at) => execEvent(`echo ${at}`));
  for (const event of events) ledger.append({ event });
  outcomes.forEach((outcome, at) => ledger.end({ ...outcome, event_id: events[at].common.event_id }));
  return events;
}

/** Runs SQL that no ledger would. */
export async function sql(path: string, statements: string): Promise<void> {
  const client = createClient({ url: `file:${path}`, timeout: 1000 });
  await client.executeMultiple(statements);
  client.close();
}

export async function select(path: string, query: string): Promise<Row[]> {
  const client = createClient({ url: `file:${path}`, timeout: 1000 });
  const { rows } = await client.execute(query);
  client.close();
  return rows;
}
