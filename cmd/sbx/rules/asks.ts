import type {
  AskInForceView,
  AskList,
  AsksInForce,
  AskView,
  PastAsks,
  VmSummary,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { connect, openAskSocket } from "../connect.ts";
import { localTime } from "../../../lib/base/moment/mod.ts";
import { formatJson, note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { whyLine } from "../../../lib/policy/ask/mod.ts";
import { table, usageError } from "../output.ts";
import { CHOICE_OPTIONS, choiceOf } from "../record/across.ts";
import { readPeriod } from "../record/event_query.ts";

const BELL = new TextEncoder().encode("\x07");

const HISTORY_OPTIONS: Option[] = [
  ...CHOICE_OPTIONS.filter(({ name }) => name !== "all"),
  { name: "since", value: "TIME", about: "only asks from this time on, as of sbx events" },
  { name: "until", value: "TIME", about: "only asks before this time" },
  {
    name: "status",
    value: "WORD",
    about: "only asks that ended so: allowed, denied, expired",
    choices: ["allowed", "denied", "expired"],
  },
];

export const command: Command = {
  name: "asks",
  usage: "[--follow|--in-force|--history|--withdraw ASK] [--json]",
  summary: "list the events that wait for a person to allow or deny them",
  notes: ["Times are UTC, and local with --in-force and --history."],
  options: [
    { name: "follow", short: "f", about: "continue with new asks; with --json one ask per line" },
    { name: "in-force", about: "answers that cover further events of running VMs now" },
    { name: "history", about: "asks of all sessions that were answered or expired, newest first" },
    {
      name: "withdraw",
      value: "ASK",
      about: "end an answer of --in-force: events that it covered are asked about again",
    },
    ...HISTORY_OPTIONS,
    JSON_OPTION,
  ],
  examples: [
    "sbx asks",
    "sbx asks --follow",
    "sbx asks --in-force",
    "sbx asks --history --since yesterday",
    "sbx asks --withdraw ask-3f2a90c1d7e4-9c1d2e7a",
  ],
  async run(args) {
    const list = listOf(args);
    const client = await connect();
    if (list === "in-force") return await listInForce(client, args);
    if (list === "withdraw") return await withdraw(client, args);
    if (list === "history") return await listHistory(client, args);
    const json = args.has("json");
    const names = new VmNames(client);
    const { asks: pending } = await client.json<AskList>("GET", "/asks");
    const asks = await Promise.all(pending.map((ask) => names.addName(ask)));
    if (!args.has("follow")) {
      await (json ? printJson({ asks }) : print(asks.length ? askTable(asks) : "no pending asks"));
      return 0;
    }
    const report = (ask: NamedAsk) => {
      if (ask.status === "pending" && Deno.stderr.isTerminal()) Deno.stderr.writeSync(BELL);
      return print(json ? formatJson(ask) : askLine(ask));
    };
    for (const ask of asks) await report(ask);
    const reported = new Set(asks.map(({ ask_id }) => ask_id));
    await followAsks(client, reported, async (ask) => report(await names.addName(ask)));
    return 0;
  },
};

/** The list that a call is about. @throws {SbxError} `usage.invalid` */
function listOf(args: Arguments): string | undefined {
  const [list, other] = ["follow", "in-force", "history", "withdraw"].filter((name) => args.has(name));
  if (other !== undefined) {
    throw usageError(command, `--${list} and --${other} are two calls`, "give one of them");
  }
  const condition = HISTORY_OPTIONS.find(({ name }) => args.has(name));
  if (condition && list !== "history") {
    throw usageError(command, `--${condition.name} is about asks that are over`, "add --history");
  }
  return list;
}

async function listInForce(client: Client, args: Arguments): Promise<number> {
  const { asks, unreadable } = await client.json<AsksInForce>("GET", "/asks/in-force");
  if (args.has("json")) await printJson({ asks });
  else {
    const rows = asks.map((ask) => [
      ask.ask_id,
      ask.vm,
      ask.answer.decision,
      ask.until === undefined ? "the session" : localTime(Date.parse(ask.until)),
      reachOf(ask),
      ask.rule_id,
      ask.answered_by?.user ?? "",
    ]);
    await print(
      rows.length
        ? table(["ASK", "VM", "ANSWER", "UNTIL", "COVERS", "RULE", "BY"], rows)
        : "no answer is in force",
    );
  }
  for (const id of unreadable) note(`the VM of session ${id} does not reply: its answers are not listed`);
  return unreadable.length > 0 ? 1 : 0;
}

async function withdraw(client: Client, args: Arguments): Promise<number> {
  const path = `/asks/in-force/${encodeURIComponent(args.text("withdraw")!)}`;
  const ask = await client.json<AskInForceView>("DELETE", path);
  await (args.has("json") ? printJson(ask) : print(
    plain(
      `withdrew the answer to ${ask.ask_id} (${ask.answer.decision}): ${ask.vm} asks about ${
        reachOf(ask)
      } again`,
    ),
  ));
  return 0;
}

/** Events that an answer covers. */
function reachOf(ask: AsksInForce["asks"][number]): string {
  const { of, path } = ask.answer;
  if (of === "host") return ask.covers_host ?? "";
  if (of === "method") return ask.covers_method ?? "";
  if (of === "path") {
    return path === undefined ? ask.covers_path ?? "" : `${path} and below, as of ${ask.subject}`;
  }
  return ask.covers ?? "";
}

async function listHistory(client: Client, args: Arguments): Promise<number> {
  const query = { ...choiceOf(args), status: args.text("status"), ...await readPeriod(args) };
  const { asks, truncated, unreadable } = await client.json<PastAsks>("GET", "/asks/history", { query });
  if (args.has("json")) await printJson({ asks, truncated });
  else {
    const rows = asks.map((ask) => [
      ask.ask_id,
      ask.vm,
      localTime(Date.parse(ask.resolved_at)),
      ask.status,
      lastingOf(ask),
      ask.answered_by?.user ?? (ask.by_rule === undefined ? "" : `rule ${ask.by_rule}`),
      ask.event_type,
      ask.subject,
      ask.rule_id,
    ]);
    const heads = ["ASK", "VM", "TIME", "END", "FOR", "BY", "TYPE", "SUBJECT", "RULE"];
    await print(rows.length ? table(heads, rows) : "no ask was answered or expired");
  }
  if (truncated) note(`only the newest ${asks.length}: --since, --until, --vm and --status select`);
  for (const id of unreadable) note(`the record of session ${id} cannot be read: sbx verify ${id} says why`);
  return unreadable.length > 0 ? 1 : 0;
}

/** Duration and scope of an answer. */
function lastingOf({ answer }: PastAsks["asks"][number]): string {
  if (!answer) return "";
  const { scope, minutes, of, path } = answer;
  const time = scope === "minutes" ? `${minutes} min` : scope;
  return [time, of && `the ${of}`, path].filter(Boolean).join(", ");
}

/** An ask with the name of its VM. */
export type NamedAsk = AskView & { vm: string };

/** Names of VMs by session, listed again for an unknown session. */
class VmNames {
  readonly #client: Client;
  readonly #names = new Map<string, string>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** Adds the name of the VM, or the session's id if the VM was deleted. */
  async addName(ask: AskView): Promise<NamedAsk> {
    if (!this.#names.has(ask.session_id)) {
      const { vms } = await this.#client.json<{ vms: VmSummary[] }>("GET", "/vms/list?all=true");
      for (const { id, name } of vms) this.#names.set(id, name);
    }
    return { ...ask, vm: this.#names.get(ask.session_id) ?? ask.session_id };
  }
}

/** Scope of an ask that can only be answered once. */
const ONCE = "this event only";

/** Formats pending asks, one per line. */
export function askTable(asks: NamedAsk[]): string {
  return table(
    ["ASK", "VM", "TIME LEFT", "TYPE", "SUBJECT", "RULE", "REASON", "--for COVERS"],
    asks.map((ask) => [
      ask.ask_id,
      ask.vm,
      secondsLeft(ask),
      ask.event_type,
      ask.subject,
      ask.rule_id,
      [ask.reason, whyLine(ask)].filter(Boolean).join("; "),
      ask.covers ?? ONCE,
    ]),
  );
}

/** Formats a new or resolved ask. */
export function askLine(ask: NamedAsk): string {
  const next = ask.status === "pending"
    ? `sbx allow ${ask.ask_id}, or sbx deny ${ask.ask_id}, within ${secondsLeft(ask)}; --for covers: ${
      ask.covers ?? ONCE
    }`
    : ask.status === "expired"
    ? "not answered in time"
    : ask.status;
  return plain(
    `${ask.ask_id}  ${ask.vm}  ${ask.event_type} ${ask.subject}  ${ask.rule_id}: ${
      [ask.reason, whyLine(ask)].filter(Boolean).join("; ")
    }  (${next})`,
  );
}

function secondsLeft({ expires_at }: AskView): string {
  return `${Math.max(0, Math.round((Date.parse(expires_at) - Date.now()) / 1000))} s`;
}

/** Reports new and resolved asks until the connection to the service is lost. */
async function followAsks(
  client: Client,
  reported: Set<string>,
  report: (ask: AskView) => Promise<void>,
): Promise<void> {
  const ended = Promise.withResolvers<never>();
  const socket = openAskSocket(client, (ask) => {
    if (ask.status === "pending" && reported.has(ask.ask_id)) return;
    reported.add(ask.ask_id);
    report(ask).catch(ended.reject);
  });
  socket.onclose = () =>
    ended.reject(
      new SbxError("service.unreachable", "the connection to the service was lost", {
        hint: "start the service with sbx start, and run the command again",
      }),
    );
  await ended.promise;
}
