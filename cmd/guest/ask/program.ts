/** sbx-ask after its command line: one call to the host, and its answer in words. */
import { McpClient } from "../../../lib/machine/guest/mcp/mod.ts";
import type { Access, Wanted } from "./request.ts";

/** EX_TEMPFAIL of sysexits.h: no one has answered yet. */
const NOT_YET = 75;

interface Answer {
  status: "allowed" | "on_request" | "waiting";
  text: string;
}

interface Question {
  ask_id: string;
  event_type: string;
  subject: string;
  rule_id: string;
  reason: string;
  expires_at: string;
}

/** Where a program writes, and the host's end of its connection; for tests. */
export interface Parts {
  out(text: string): void;
  note(text: string): void;
  open?: () => Promise<Deno.Conn>;
}

/** @returns the exit code @throws {Error} the reason of the host */
export async function run(wanted: Exclude<Wanted, { help: true }>, parts: Parts): Promise<number> {
  using client = await McpClient.connect("sbx-ask", parts.open);
  if ("access" in wanted) return await ask(client, wanted.access, wanted.json, parts);
  const { asks } = await client.call("local__list_asks", {}) as { asks: Question[] };
  parts.out(wanted.json ? JSON.stringify({ asks }) : listText(asks));
  return 0;
}

async function ask(client: McpClient, access: Access, json: boolean, { out, note }: Parts): Promise<number> {
  let noted = "";
  const answer = await client.call("local__request_access", { ...access }, (text) => {
    if (text !== noted) note(`sbx-ask: ${plain(text)}`);
    noted = text;
  }) as Answer;
  out(json ? JSON.stringify(answer) : plain(answer.text));
  return answer.status === "waiting" ? NOT_YET : 0;
}

function listText(asks: Question[]): string {
  if (asks.length === 0) return "nothing waits for your user";
  return asks.map(({ ask_id, event_type, subject, rule_id, reason, expires_at }) =>
    plain(`${ask_id}  ${event_type} ${subject}  ${rule_id}: ${reason}  (until ${expires_at})`)
  ).join("\n");
}

/** A terminal gets no control characters of a name. */
export function plain(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, "�");
}
