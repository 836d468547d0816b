import type { AskList, AskView } from "../../lib/api/policy.ts";
import type { Client } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/error/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { connect } from "./connect.ts";
import { print, printJson, table } from "./output.ts";

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
    const { asks } = await client.json<AskList>("GET", "/asks");
    if (!given.on("follow")) {
      await (json ? printJson({ asks }) : print(asks.length ? listed(asks) : "nothing waits"));
      return 0;
    }
    const say = (ask: AskView) => print(json ? JSON.stringify(ask) : line(ask));
    for (const ask of asks) await say(ask);
    await followAsks(client, new Set(asks.map(({ ask_id }) => ask_id)), say);
    return 0;
  },
};

function listed(asks: AskView[]): string {
  return table(
    ["ASK", "WAITS FOR", "RULE", "REASON"],
    asks.map((ask) => [ask.ask_id, secondsLeft(ask), ask.rule_id, ask.reason]),
  );
}

function line(ask: AskView): string {
  const next = ask.status === "pending"
    ? `sbx allow ${ask.ask_id}, or sbx deny ${ask.ask_id}, within ${secondsLeft(ask)}`
    : ask.status;
  return `${ask.ask_id}  ${ask.rule_id}: ${ask.reason}  (${next})`;
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
