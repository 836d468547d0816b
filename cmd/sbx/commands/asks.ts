import type { AskList, AskView } from "../../../lib/api/policy.ts";
import type { VmSummary } from "../../../lib/api/vm.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson, table } from "../output.ts";

export const command: Command = {
  name: "asks",
  usage: "[--follow] [--json]",
  summary: "what waits for a person to allow or deny it",
  options: [
    { name: "follow", short: "f", about: "go on with what comes; --json then prints an ask a line" },
    JSON_OPTION,
  ],
  examples: ["sbx asks", "sbx asks --follow"],
  async run(given) {
    const client = await connect();
    const json = given.on("json");
    const names = new VmNames(client);
    const { asks: waiting } = await client.json<AskList>("GET", "/asks");
    const asks = await Promise.all(waiting.map((ask) => names.put(ask)));
    if (!given.on("follow")) {
      await (json ? printJson({ asks }) : print(asks.length ? askTable(asks) : "nothing waits"));
      return 0;
    }
    const say = (ask: NamedAsk) => print(json ? JSON.stringify(ask) : askLine(ask));
    for (const ask of asks) await say(ask);
    const known = new Set(asks.map(({ ask_id }) => ask_id));
    await followAsks(client, known, async (ask) => say(await names.put(ask)));
    return 0;
  },
};

/** An ask with the name of its VM. */
export type NamedAsk = AskView & { vm: string };

/** What VMs are called; asked for again when one is not known yet. */
class VmNames {
  readonly #client: Client;
  readonly #names = new Map<string, string>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** An ask of a VM that is gone already has its id in place of the name. */
  async put(ask: AskView): Promise<NamedAsk> {
    if (!this.#names.has(ask.session_id)) {
      const { vms } = await this.#client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
      for (const { id, name } of vms) this.#names.set(id, name);
    }
    return { ...ask, vm: this.#names.get(ask.session_id) ?? ask.session_id };
  }
}

/** What waits, one ask a line. */
export function askTable(asks: NamedAsk[]): string {
  return table(
    ["ASK", "VM", "TIME LEFT", "TYPE", "WHAT", "RULE", "REASON"],
    asks.map((ask) => [
      ask.ask_id,
      ask.vm,
      secondsLeft(ask),
      ask.event_type,
      ask.subject,
      ask.rule_id,
      ask.reason,
    ]),
  );
}

/** One ask as it begins, or as it ends. */
export function askLine(ask: NamedAsk): string {
  const next = ask.status === "pending"
    ? `sbx allow ${ask.ask_id}, or sbx deny ${ask.ask_id}, within ${secondsLeft(ask)}`
    : ask.status === "expired"
    ? "nobody answered"
    : ask.status;
  return plain(
    `${ask.ask_id}  ${ask.vm}  ${ask.event_type} ${ask.subject}  ${ask.rule_id}: ${ask.reason}  (${next})`,
  );
}

function secondsLeft({ expires_at }: AskView): string {
  return `${Math.max(0, Math.round((Date.parse(expires_at) - Date.now()) / 1000))} s`;
}

/** Tells each ask as it begins and as it ends, until the service goes away. */
async function followAsks(
  client: Client,
  known: Set<string>,
  say: (ask: AskView) => Promise<void>,
): Promise<void> {
  const socket = new WebSocket(client.socketUrl("/events"));
  const ended = Promise.withResolvers<never>();
  socket.onmessage = ({ data }) => {
    const { type, payload } = JSON.parse(data) as { type: string; payload: AskView };
    if (type !== "ask" || (payload.status === "pending" && known.has(payload.ask_id))) return;
    known.add(payload.ask_id);
    say(payload).catch(ended.reject);
  };
  socket.onclose = () =>
    ended.reject(
      new SbxError("service.unreachable", "the service went away", { hint: "sbx start starts it again" }),
    );
  await ended.promise;
}
