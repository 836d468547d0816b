/**
 * Events of a session: columns of a line, pages of them, the options that select them, and recorded
 * ones to replay.
 */
import type { EventsQuery, EventsResult } from "../../../lib/client/api/mod.ts";
import { isAddress } from "../../../lib/base/address/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { allOf } from "../../../lib/base/list/mod.ts";
import { EVENT_FAMILIES, SEVERITIES } from "../../../lib/event/mod.ts";
import { usageError } from "../output.ts";
import { type Origins, readMoment } from "../../../lib/base/moment/mod.ts";
import type { LabEvent } from "../../../lib/lab/mod.ts";
import { connect } from "../connect.ts";

// Not through lib/policy/mod.ts, which loads the rule engine.
export { subjectWithError } from "../../../lib/policy/decision/mod.ts";

export type ListedEvent = EventsResult["events"][number];

/**
 * Decision on an event and its rule, such as `block corp-no-curl`; empty for events that are only observed.
 */
export function decisionOf({ decision, rule_id }: ListedEvent): string {
  if (decision === undefined) return "";
  return decision === "allow" ? "allow" : `${decision} ${rule_id ?? ""}`.trim();
}

/** Unix time in `ms`. */
export function timeOf(event: ListedEvent): number {
  return Number(objectOf(event.common).timestamp_unix_ms ?? 0);
}

/** Selects events of a session; the API's words. */
type EventFilter = {
  family?: string;
  /** requests, and names without an address */
  network?: "true";
  denied?: "true";
  decision?: string;
  severity?: string;
  /** unix `ms` */
  since?: number;
  /** unix `ms` */
  until?: number;
  host?: string;
  process?: string;
  path?: string;
  address?: string;
  grep?: string;
};

/** Events of one request, the API's maximum. */
const PAGE_SIZE = 1000;
/** Interval between requests that follow a session, in `ms`. */
const POLL_MS = 300;
/** Requests without new events after which the VM is checked. */
const QUIET_POLLS = 5;

interface PageOptions {
  /** continue with new events until the VM is deleted; pages without new events are empty */
  follow?: boolean;
  /** events of one page */
  size?: number;
}

/** Yields pages of a session's events, oldest first. */
export async function* eventPages(
  client: Client,
  id: string,
  filter: EventFilter,
  { follow = false, size = PAGE_SIZE }: PageOptions = {},
): AsyncGenerator<ListedEvent[]> {
  // The id, since another VM may get the name later.
  const vm = follow ? await findVmId(client, id) : undefined;
  const session = vm ?? id;
  let ended = follow && vm === undefined;
  for (let cursor: string | undefined, quiet = 0;;) {
    const { events, next_cursor } = await fetchPage(client, session, { ...filter, cursor, limit: size });
    cursor = cursorAfter(events) ?? cursor;
    if (events.length || follow) yield events;
    if (next_cursor !== undefined) continue;
    if (!follow || ended) return;
    quiet = events.length ? 0 : quiet + 1;
    // One more request follows, for events recorded since the last one.
    if (quiet % QUIET_POLLS === 0) ended = quiet > 0 && await findVmId(client, session) === undefined;
    if (!ended) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Cursor for the next page. */
function cursorAfter(events: ListedEvent[]): string | undefined {
  const last = events.at(-1);
  return last && String(objectOf(last.common).sequence);
}

async function fetchPage(
  client: Client,
  id: string,
  query: EventFilter & { cursor?: string; limit: number },
): Promise<EventsResult> {
  return await client.json<EventsResult>("GET", `/sessions/${segment(id)}/events`, { query });
}

/** Returns the id of an existing VM; undefined if it was deleted, even if its session's record remains. */
async function findVmId(client: Client, id: string): Promise<string | undefined> {
  try {
    return (await client.json<{ id: string }>("GET", `/vms/${segment(id)}/status`)).id;
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.not_found") return undefined;
    throw error;
  }
}

const FAMILIES: readonly string[] = EVENT_FAMILIES;
const DECISIONS: readonly string[] = allOf<NonNullable<typeof EventsQuery["_output"]["decision"]>>()(
  "allow",
  "ask",
  "block",
);

export const FAMILY_OPTION: Option = {
  name: "family",
  value: "FAMILY",
  about: `only this family: ${FAMILIES.join(", ")}`,
  choices: FAMILIES,
};

export const ADDRESS_OPTION: Option = {
  name: "address",
  value: "IP",
  about: "only requests to this IP address, and DNS answers with it; * stands for any characters",
};

export const FILTER_OPTIONS: Option[] = [
  {
    name: "since",
    value: "TIME",
    about: "only from this time on: 2h ago, 14:05, yesterday 14:05, +90s (after the first event)",
  },
  { name: "until", value: "TIME", about: "only before this time" },
  {
    name: "severity",
    value: "WORD",
    about: `only events with a finding of it or above: ${SEVERITIES.join(", ")}`,
    choices: SEVERITIES,
  },
  { name: "host", value: "HOST", about: "only this host; * stands for any characters" },
  { name: "process", value: "NAME", about: "only this program, by its path or the last part of it" },
  { name: "path", value: "PATH", about: "only this path of a request or file; * stands for any characters" },
  {
    name: "decision",
    value: "WORD",
    about: `only this decision: ${DECISIONS.join(", ")}`,
    choices: DECISIONS,
  },
  { name: "grep", value: "TEXT", about: "only events that have this text anywhere" },
];

/**
 * Reads the options of a call, and connects once they are valid: a wrong one starts no service.
 *
 * @throws {SbxError} `usage.invalid`
 */
export async function readFilter(
  command: Command,
  args: Arguments,
  session?: string,
): Promise<{ client: Client; filter: EventFilter }> {
  if (args.has("until") && args.has("follow")) {
    throw usageError(
      command,
      "--follow waits for events to come, and --until ends before them",
      "give one of them",
    );
  }
  const now = Date.now();
  // The session's first event is in the service; its time matters only to a value that is valid.
  await readPeriod(args, { now, ...session !== undefined && { start: () => Promise.resolve(0) } });
  const address = addressOf(command, args);
  const client = await connect();
  const filter = {
    family: args.text("family"),
    decision: args.text("decision"),
    severity: args.text("severity"),
    ...await readPeriod(args, {
      now,
      ...session !== undefined && { start: () => startOf(client, session) },
    }),
    host: args.text("host"),
    process: args.text("process"),
    path: args.text("path"),
    address,
    grep: args.text("grep"),
    ...(args.has("denied") && { denied: "true" as const }),
  };
  return { client, filter };
}

/** Value of {@linkcode ADDRESS_OPTION}: no event has one that is neither an address nor a pattern. */
function addressOf(command: Command, args: Arguments): string | undefined {
  const text = args.text("address");
  if (text === undefined || isAddress(text) || /^[0-9a-f:.]*\*[0-9a-f:.*]*$/i.test(text)) return text;
  throw usageError(
    command,
    `invalid value "${text}" of --address`,
    "give an IP address, such as 203.0.113.7 or 2001:db8::7, or a pattern with *, such as 203.0.113.*",
  );
}

/** The period that `--since` and `--until` give, in unix `ms`. */
export async function readPeriod(
  args: Arguments,
  origins: Origins = { now: Date.now() },
): Promise<{ since?: number; until?: number }> {
  const time = async (name: string) => {
    const text = args.text(name);
    return text === undefined ? undefined : await readMoment(name, text, origins);
  };
  return { since: await time("since"), until: await time("until") };
}

/** Time of a session's first event; now, if it has no events yet. */
export async function startOf(client: Client, session: string): Promise<number> {
  for await (const [first] of eventPages(client, session, {}, { size: 1 })) return timeOf(first);
  return Date.now();
}

/** End of the name of a file of events; names of VMs have no dot. */
const FILE_END = ".jsonl";

export const FILE_NOTE =
  "A FILE ends with .jsonl and has the events of a session as sbx events NAME --jsonl prints them.";

/**
 * Reads events of recorded sessions for commands that replay them; connects to the service when the first one
 * needs it, since files need none.
 */
export class RecordedEvents {
  #client?: Promise<Client>;

  client(): Promise<Client> {
    return this.#client ??= connect();
  }

  /** @param word name of a VM, id of a session, or file */
  async *of(word: string): AsyncGenerator<LabEvent> {
    if (word.endsWith(FILE_END)) {
      const { readEventFile } = await import("../../../lib/lab/mod.ts");
      return yield* readEventFile(word);
    }
    for await (const page of eventPages(await this.client(), word, {})) yield* page as unknown as LabEvent[];
  }
}
