import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import {
  containerName,
  type ProcessNode,
  type ProcessTree,
  ProcessTreeBuilder,
} from "../../../lib/event/mod.ts";
import { table } from "../output.ts";
import { FILE_NOTE, RecordedEvents } from "./event_query.ts";

/** Most indented levels, and most characters of a command. */
const DEPTH_SHOWN = 30;
const COMMAND_SHOWN = 160;

export const command: Command = {
  name: "tree",
  usage: "NAME|FILE [--json]",
  summary: "show the programs of a session as a tree, with their actions",
  notes: [
    "A program known from its requests alone has no parent, and the name that the guest gave it.",
    FILE_NOTE,
  ],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  completes: [{ either: ["sessions", "files"] }],
  examples: ["sbx tree demo", "sbx tree demo --json"],
  async run(args) {
    const builder = new ProcessTreeBuilder();
    for await (const event of new RecordedEvents().of(args.words[0])) builder.add(event);
    const tree = builder.tree();
    await (args.has("json") ? printJson(tree) : print(formatTree(tree)));
    return 0;
  },
};

function formatTree({ processes, unattributed }: ProcessTree): string {
  const rest = countsOf(unattributed);
  return [
    processes.length ? table(["EVENT", "PID", "ENDED", "DID", "PROGRAM"], processes.map(row)) : "no programs",
    ...rest ? [`of no known program: ${rest}`] : [],
  ].join("\n");
}

function row({ event_id, pid, exit_code, events, blocked_count, depth, ...node }: ProcessNode): string[] {
  const { command, container, decision, rule_id } = node;
  const ended = decision === "block"
    ? `block ${rule_id}`
    : exit_code === undefined
    ? ""
    : `exit ${exit_code}`;
  const did = [countsOf(events), blocked_count > 0 ? `${blocked_count} blocked` : ""].filter(Boolean);
  const cut = command.length > COMMAND_SHOWN ? `${command.slice(0, COMMAND_SHOWN - 1)}…` : command;
  return [
    event_id ?? "",
    pid ? String(pid) : "",
    ended,
    did.join(", "),
    "  ".repeat(Math.min(depth, DEPTH_SHOWN)) + cut + (container ? ` (in ${containerName(container)})` : ""),
  ];
}

/** Counts of families, such as `3 http, 1 dns`. */
function countsOf(events: ProcessTree["unattributed"]): string {
  return Object.entries(events).map(([family, number]) => `${number} ${family}`).join(", ");
}
