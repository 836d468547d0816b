/** Lists over all recorded sessions: their options, their lines, and their exit code. */
import type { AcrossEvents, AcrossFindings } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { localTime, zoneOf } from "../../../lib/base/moment/mod.ts";
import { objectOf } from "../../../lib/base/object/mod.ts";
import { formatJson, note, plain, print } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { usageError } from "../output.ts";
import {
  decisionOf,
  FILTER_OPTIONS,
  type ListedEvent,
  readFilter,
  readPeriod,
  subjectWithError,
  timeOf,
} from "./event_query.ts";

/** Exit code of `--fail-on-match` (docs/design/contracts/13-command-line.md §13, "Exit codes"). */
const MATCHED = 4;
/** Events of one request. */
const PAGE = 1000;

export const CHOICE_OPTIONS: Option[] = [
  { name: "all", about: "all recorded sessions, of deleted VMs too" },
  { name: "profile", value: "ID", about: "all sessions of this profile", completes: "profiles" },
  { name: "vm", value: "NAME", about: "all sessions of the VM of this name", completes: "sessions" },
];

export const ACROSS_OPTIONS: Option[] = [
  ...CHOICE_OPTIONS,
  { name: "fail-on-match", about: `exit with ${MATCHED} if anything is listed, for scripts` },
];

export const ACROSS_NOTE =
  "With --all, --profile or --vm: all their sessions in the order of time, in local time; --json prints one object per line.";

/**
 * True if a call is about many sessions.
 * @throws {SbxError} `usage.invalid`: it names one too, or none at all
 */
export function isAcross(command: Command, args: Arguments): boolean {
  const given = CHOICE_OPTIONS.filter(({ name }) => args.has(name)).map(({ name }) => `--${name}`);
  if (args.words.length > 0) {
    const [first] = [...given, ...args.has("fail-on-match") ? ["--fail-on-match"] : []];
    if (first === undefined) return false;
    throw usageError(
      command,
      `${first} is about many sessions, and "${args.words[0]}" is one`,
      `sbx ${command.name} --vm NAME is about all sessions of a name`,
    );
  }
  if (given.length > 0) return true;
  throw usageError(
    command,
    "which session?",
    `sbx ${command.name} NAME, or sbx ${command.name} --all for all of them`,
  );
}

/** Profile and VM of a call. */
export function choiceOf(args: Arguments): { profile?: string; vm?: string } {
  return { profile: args.text("profile"), vm: args.text("vm") };
}

/** Lists events of many sessions. @returns the exit code */
export async function listAcross(
  command: Command,
  args: Arguments,
  conditions: { family?: string; network?: "true" } = {},
  vm = args.text("vm"),
): Promise<number> {
  if (args.has("follow")) {
    throw usageError(command, "--follow is about one VM", `sbx ${command.name} NAME -f`);
  }
  const { client, filter: options } = await readFilter(command, args);
  const filter = { ...options, ...conditions, ...choiceOf(args), vm };
  const isJson = args.has("json") || args.has("jsonl");
  let listed = 0;
  const unreadable = new Set<string>();
  let cursor: string | undefined;
  for (;;) {
    const query = { ...filter, cursor, limit: PAGE };
    const page: AcrossEvents = await client.json("GET", "/sessions/events", { query });
    for (const id of page.unreadable) unreadable.add(id);
    if (page.events.length > 0) {
      if (listed === 0 && !isJson) await print(HEADINGS(timeOf(page.events[0])));
      await print(page.events.map((event) => isJson ? formatJson(event) : eventLine(event)).join("\n"));
    }
    listed += page.events.length;
    cursor = page.next_cursor;
    if (cursor === undefined) break;
  }
  if (listed === 0 && !isJson) await print("no events");
  return exitCode(args, listed, unreadable);
}

const HEADINGS = (at: number) =>
  columns([`TIME (${zoneOf(at)})`, "VM", "TYPE", "DECISION", "EVENT", "SUBJECT"]);

function eventLine(event: ListedEvent): string {
  const { event_id, event_type } = objectOf(event.common);
  return columns([
    localTime(timeOf(event)),
    String(event.vm ?? ""),
    String(event_type ?? ""),
    decisionOf(event),
    String(event_id ?? ""),
    subjectWithError(event),
  ]);
}

/** Widths of columns: a longer cell shifts the rest of its line, since lines are printed as they come. */
const WIDTHS = [23, 12, 14, 8, 12, 0];

function columns(cells: string[]): string {
  return cells.map((cell, at) => plain(cell).padEnd(WIDTHS[at])).join("  ").trimEnd();
}

/** The exit code, with a note about each session whose record cannot be read: events may be missing. */
export function exitCode(args: Arguments, listed: number, unreadable: Iterable<string>): number {
  const lost = [...unreadable];
  for (const id of lost) note(`the record of session ${id} cannot be read: sbx verify ${id} says why`);
  return args.has("fail-on-match") && listed > 0 ? MATCHED : lost.length > 0 ? 1 : 0;
}

/** Findings of many sessions. */
export async function fetchFindings(client: Client, args: Arguments): Promise<AcrossFindings> {
  const query = {
    ...choiceOf(args),
    severity: args.text("severity"),
    decision: args.text("decision"),
    ...await readPeriod(args),
  };
  const answer = await client.json<AcrossFindings>("GET", "/sessions/findings", { query });
  if (answer.truncated) {
    note(`only ${count(answer.findings.length, "finding")}: --since, --until and --severity select`);
  }
  return answer;
}

/** A command that lists the events of one family. */
export function familyCommand(name: string, family: string, what: string): Command {
  const command: Command = {
    name,
    usage: "NAME|--all|--profile ID|--vm NAME [--since TIME] [--until TIME] [--json]",
    summary: `list ${what} of sessions, in the order of time`,
    notes: ["NAME is all sessions of a VM, as --vm is. Times are local; --json prints one object per line."],
    options: [
      ...ACROSS_OPTIONS,
      ...FILTER_OPTIONS,
      { name: "denied", about: "only refused ones" },
      JSON_OPTION,
    ],
    words: { min: 0, max: 1 },
    completes: ["sessions"],
    examples: [`sbx ${name} demo`, `sbx ${name} --all --since "2h ago"`],
    run: (args) => {
      const [vm] = args.words;
      if (vm === undefined) isAcross(command, args);
      return listAcross(command, args, { family }, vm);
    },
  };
  return command;
}
