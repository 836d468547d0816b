import type { AskList, AskView, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { connect, openAskSocket } from "../connect.ts";
import { formatJson, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { whyLine } from "../../../lib/policy/ask/mod.ts";
import { table, UTC_NOTE } from "../output.ts";

const BELL = new TextEncoder().encode("\x07");

export const command: Command = {
  name: "asks",
  usage: "[--follow] [--json]",
  summary: "list the events that wait for a person to allow or deny them",
  notes: [UTC_NOTE],
  options: [
    { name: "follow", short: "f", about: "continue with new asks; with --json one ask per line" },
    JSON_OPTION,
  ],
  examples: ["sbx asks", "sbx asks --follow"],
  async run(args) {
    const client = await connect();
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
