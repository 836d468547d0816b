/** Options that select events of a session, shared by the commands that list them. */
import type { EventsQuery } from "../../../lib/client/api/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { allOf } from "../../../lib/base/list/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { EVENT_FAMILIES } from "../../../lib/event/mod.ts";
import { type EventFilter, eventPages } from "./event_pages.ts";
import { timeOf } from "./event_row.ts";
import { readTime } from "./event_time.ts";
import { usageError } from "../usage.ts";

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
};

export const FILTER_OPTIONS: Option[] = [
  {
    name: "since",
    value: "TIME",
    about: "only from this time on: 10m (ago), +90s (after the first event) or 2026-11-22T10:30",
  },
  { name: "until", value: "TIME", about: "only before this time" },
  { name: "host", value: "HOST", about: "only this host; * stands for any characters" },
  { name: "process", value: "NAME", about: "only this program, by its path or the last part of it" },
  { name: "path", value: "PATH", about: "only this path of a request or file; * stands for any characters" },
  { name: "decision", value: "WORD", about: `only this decision: ${DECISIONS.join(", ")}` },
  { name: "grep", value: "TEXT", about: "only events that have this text anywhere" },
];

/** Reads the options of a call. @throws {SbxError} `usage.invalid` */
export async function readFilter(
  command: Command,
  args: Arguments,
  client: Client,
  session: string,
): Promise<EventFilter> {
  const word = (name: string, words: readonly string[]) => {
    const value = args.text(name);
    if (value === undefined || words.includes(value)) return value;
    throw usageError(command, `unknown ${name} "${value}"`, `give one of ${words.join(", ")}`);
  };
  if (args.has("until") && args.has("follow")) {
    throw usageError(
      command,
      "--follow waits for events to come, and --until ends before them",
      "give one of them",
    );
  }
  const origins = { now: Date.now(), start: () => startOf(client, session) };
  const time = async (name: string) => {
    const text = args.text(name);
    return text === undefined ? undefined : await readTime(name, text, origins);
  };
  return {
    family: word("family", FAMILIES),
    decision: word("decision", DECISIONS),
    since: await time("since"),
    until: await time("until"),
    host: args.text("host"),
    process: args.text("process"),
    path: args.text("path"),
    grep: args.text("grep"),
    ...(args.has("denied") && { denied: "true" as const }),
  };
}

/** Time of a session's first event; now, if it has no events yet. */
export async function startOf(client: Client, session: string): Promise<number> {
  for await (const [first] of eventPages(client, session, {}, { size: 1 })) return timeOf(first);
  return Date.now();
}
