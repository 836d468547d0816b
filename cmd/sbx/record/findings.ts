import type {
  FindingException,
  FindingExceptionList,
  FindingList,
  FindingStates,
  ListedFinding,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { localTime, zoneOf } from "../../../lib/base/moment/mod.ts";
import { FINDING_OUTCOMES, SEVERITIES, type Severity } from "../../../lib/event/mod.ts";
import { connect } from "../connect.ts";
import { ACROSS_OPTIONS, exitCode, fetchFindings, isAcross } from "./across.ts";
import { readPeriod } from "./event_query.ts";
import { formatJson, note, print, printJson } from "../../../lib/base/print/mod.ts";
import { table, usageError, UTC_NOTE } from "../output.ts";

const REASON = { name: "reason", value: "TEXT", about: "the reason, for a later review" };
const VERDICTS = ["true-positive", "false-positive", "accepted"];
const PROPERTIES = ["host", "program", "vm"];

const CLOSE: Command = {
  name: "findings close",
  usage: "NAME FINDING… --as VERDICT [--reason TEXT] [--json]",
  summary: "close findings with a verdict",
  options: [
    { name: "as", value: "VERDICT", about: `one of ${VERDICTS.join(", ")}`, choices: VERDICTS },
    REASON,
    JSON_OPTION,
  ],
  words: { min: 2, max: 1000 },
  completes: ["vms"],
  examples: ["sbx findings close demo 3f2a9c1b7d4e --as false-positive"],
  run: (args) => {
    const verdict = args.text("as");
    if (verdict === undefined) throw usageError(CLOSE, "missing option --as VERDICT");
    return change(args, { status: "closed", verdict }, "closed");
  },
};

const EXCEPT: Command = {
  name: "findings except",
  usage: "NAME FINDING --for PROPERTY… --reason TEXT [--days N] [--json]",
  summary: "make an exception from a finding, for a time",
  notes: [
    "Decisions and records stay as they are: findings of an exception are left out of the list,",
    "and go to the sinks as suppressed.",
  ],
  options: [
    {
      name: "for",
      value: "PROPERTY",
      many: true,
      about: `${PROPERTIES.join(", ")}; all that are given must agree`,
      choices: PROPERTIES,
    },
    REASON,
    { name: "days", value: "N", about: "how long it holds; default 30, at most 366" },
    JSON_OPTION,
  ],
  words: { min: 2, max: 2 },
  completes: ["vms"],
  examples: ['sbx findings except demo 3f2a9c1b7d4e --for host --reason "our mirror"'],
  run: except,
};

const LIST: Command = {
  name: "findings list",
  usage: "NAME|--all|--profile ID|--vm NAME [--severity WORD] [--decision WORD] [--since TIME] [--json]",
  summary: "list the findings of detections and rules in a session",
  notes: [
    "Works also after the VM was deleted. The word list may be left out.",
    "Without NAME: findings of all sessions in the order of time, also closed ones, in local time; --json prints one object per line.",
    "Lookups of one name, and start and end of one program, are one row with a count.",
    UTC_NOTE,
  ],
  options: [
    { name: "all", about: "with closed and excepted findings; without NAME: of all sessions" },
    ...ACROSS_OPTIONS.filter(({ name }) => name !== "all"),
    { name: "since", value: "TIME", about: "from this time on: 2h ago, 14:05, yesterday 14:05" },
    { name: "until", value: "TIME", about: "before this time" },
    {
      name: "severity",
      value: "WORD",
      about: `this severity and above: ${SEVERITIES.join(", ")}`,
      choices: SEVERITIES,
    },
    {
      name: "decision",
      value: "WORD",
      about: `outcome of the event: ${FINDING_OUTCOMES.join(", ")}`,
      choices: FINDING_OUTCOMES,
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["vms"],
  examples: [
    "sbx findings demo",
    "sbx findings demo --severity high",
    "sbx findings --all --severity high --since 2h --fail-on-match",
  ],
  run: list,
};

export const command: CommandGroup = {
  name: "findings",
  summary: "list findings of a session, acknowledge, close and except them",
  fallback: "list",
  subcommands: [
    LIST,
    {
      name: "findings ack",
      usage: "NAME FINDING… [--reason TEXT] [--json]",
      summary: "acknowledge findings: someone looks at them",
      notes: ["FINDING is the id of an event, as the list has it, or of a finding."],
      options: [REASON, JSON_OPTION],
      words: { min: 2, max: 1000 },
      completes: ["vms"],
      examples: ["sbx findings ack demo 3f2a9c1b7d4e"],
      run: (args) => change(args, { status: "acknowledged" }, "acknowledged"),
    },
    CLOSE,
    EXCEPT,
    {
      name: "findings exceptions",
      usage: "[--json]",
      summary: "list the exceptions, also expired ones",
      options: [JSON_OPTION],
      examples: ["sbx findings exceptions"],
      run: exceptions,
    },
    {
      name: "findings unexcept",
      usage: "ID [--json]",
      summary: "remove an exception",
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      examples: ["sbx findings unexcept paste-upload-1f3c9a2b"],
      run: unexcept,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  if (args.words.length === 0) return await listOfAll(args);
  const given = ["profile", "vm"].find((name) => args.has(name));
  if (given !== undefined) {
    throw usageError(LIST, `--${given} is about many sessions`, "leave NAME out, or give it as --vm NAME");
  }
  const passes = passesOf(args, await readPeriod(args));
  const path = `/sessions/${segment(args.words[0])}/findings`;
  const found = await (await connect()).json<FindingList>("GET", path);
  const findings = found.findings.filter(passes);
  if (args.has("json")) {
    await printJson({ findings });
    return exitCode(args, findings.length, []);
  }
  const shown = args.has("all") ? findings : findings.filter(isOpen);
  const left = findings.length - shown.length;
  if (shown.length === 0) await print("no findings");
  else {
    const rows = [...Map.groupBy(shown, ({ group, finding_id }) => group ?? finding_id).values()].map(rowOf);
    await print(table(["TIME", ...COLUMNS, "COUNT", "SUBJECT"], rows));
  }
  if (left > 0) note(`${count(left, "finding")} closed or excepted: --all shows them`);
  return exitCode(args, shown.length, []);
}

/** The test of one session's findings, as the service tests findings of many. */
export function passesOf(
  args: Pick<Arguments, "text">,
  { since = -Infinity, until = Infinity }: { since?: number; until?: number },
): (finding: Pick<ListedFinding, "severity" | "decision" | "timestamp_unix_ms">) => boolean {
  const least = SEVERITIES.indexOf((args.text("severity") ?? SEVERITIES[0]) as Severity);
  const outcome = args.text("decision");
  return ({ severity, decision, timestamp_unix_ms: time = 0 }) =>
    SEVERITIES.indexOf(severity) >= least && (outcome === undefined || decision?.outcome === outcome) &&
    time >= since && time < until;
}

async function listOfAll(args: Arguments): Promise<number> {
  isAcross(LIST, args);
  const { findings, unreadable } = await fetchFindings(await connect(), args);
  if (args.has("json")) {
    if (findings.length > 0) await print(findings.map((finding) => formatJson(finding)).join("\n"));
  } else if (findings.length === 0) await print("no findings");
  else {
    const zone = zoneOf(findings[0].timestamp_unix_ms ?? 0);
    const rows = findings.map((finding) => [
      localTime(finding.timestamp_unix_ms ?? 0),
      ...cellsOf(finding),
      finding.subject ?? "",
    ]);
    await print(table([`TIME (${zone})`, ...COLUMNS, "SUBJECT"], rows));
  }
  return exitCode(args, findings.length, unreadable);
}

function isOpen({ states, exception }: ListedFinding): boolean {
  return states?.at(-1)?.status !== "closed" && exception === undefined;
}

function rowOf(group: ListedFinding[]): string[] {
  const [first] = group;
  const time = first.timestamp_unix_ms;
  return [
    time === undefined ? "" : new Date(time).toISOString().slice(11, 23),
    ...cellsOf(first),
    group.length > 1 ? String(group.length) : "",
    first.subject ?? "",
  ];
}

/** Columns of each list between the time and the subject of a finding. */
const COLUMNS = ["SEVERITY", "DECISION", "STATE", "EVENT", "PACK", "RULE", "TITLE", "VM", "PROGRAM"];

/** The cells of {@linkcode COLUMNS}. */
function cellsOf(finding: ListedFinding): string[] {
  const { severity, event_id, pack_id, rule_id, title, decision, vm_name = "", process = "" } = finding;
  return [
    severity,
    decision?.outcome ?? "",
    stateOf(finding),
    event_id,
    pack_id,
    rule_id,
    title,
    vm_name,
    process,
  ];
}

function stateOf({ states, exception }: ListedFinding): string {
  const state = states?.at(-1);
  if (state) return state.verdict ?? state.status;
  return exception === undefined ? "new" : "excepted";
}

/** Gives the findings that the call names, and the others of their groups, a state. */
async function change(
  args: Arguments,
  state: { status: string; verdict?: string },
  done: string,
): Promise<number> {
  const [name, ...named] = args.words;
  const path = `/sessions/${segment(name)}/findings`;
  const client = await connect();
  const { findings } = await client.json<FindingList>("GET", path);
  const isNamed = ({ finding_id, event_id }: ListedFinding) =>
    named.includes(finding_id) || named.includes(event_id);
  const groups = new Set(findings.filter(isNamed).map(({ group }) => group));
  const others = findings.filter((each) => groups.has(each.group) && !isNamed(each));
  const reason = args.text("reason");
  const json = {
    findings: [...named, ...others.map(({ finding_id }) => finding_id)],
    state: { ...state, ...(reason !== undefined && { reason }) },
  };
  const answer = await client.json<FindingStates>("POST", `${path}/state`, { json });
  if (args.has("json")) await printJson(answer);
  else await print(`${done} ${count(answer.findings.length, "finding")}`);
  return 0;
}

async function except(args: Arguments): Promise<number> {
  const [name, finding] = args.words;
  const of = args.list("for");
  if (of.length === 0) throw usageError(EXCEPT, "missing option --for PROPERTY");
  const reason = args.text("reason");
  if (reason === undefined) throw usageError(EXCEPT, "missing option --reason TEXT");
  const days = args.number("days", { min: 1, max: 366 });
  const json = { finding, of, reason, ...(days !== undefined && { days }) };
  const path = `/sessions/${segment(name)}/findings/except`;
  const made = await (await connect()).json<FindingException>("POST", path, { json });
  if (args.has("json")) await printJson(made);
  else {
    await print(
      `excepted ${scopeOf(made)} from ${made.rule} until ${made.expires.slice(0, 10)} (${made.id})`,
    );
  }
  return 0;
}

function scopeOf({ host, program, vm }: FindingException): string {
  return Object.entries({ host, program, vm })
    .flatMap(([property, value]) => value === undefined ? [] : [`${property} ${value}`]).join(", ");
}

async function exceptions(args: Arguments): Promise<number> {
  const answer = await (await connect()).json<FindingExceptionList>("GET", "/findings/exceptions");
  if (args.has("json")) await printJson(answer);
  else if (answer.exceptions.length === 0) await print("no exceptions");
  else {
    const rows = answer.exceptions.map((each) => [
      each.id,
      each.rule,
      scopeOf(each),
      each.expires.slice(0, 10) + (Date.parse(each.expires) <= Date.now() ? " (expired)" : ""),
      each.by ?? "",
      each.reason,
    ]);
    await print(table(["ID", "RULE", "FOR", "UNTIL", "BY", "REASON"], rows));
  }
  return 0;
}

async function unexcept(args: Arguments): Promise<number> {
  const path = `/findings/exceptions/${encodeURIComponent(args.words[0])}`;
  const removed = await (await connect()).json<FindingException>("DELETE", path);
  if (args.has("json")) await printJson(removed);
  else await print(`removed ${removed.id}`);
  return 0;
}
