/** Questions of one VM's policy, shown where its agent runs. */
import type { AskAnswer, AskView } from "../../lib/api/mod.ts";
import { note, plain } from "../../lib/base/print/mod.ts";
import type { Client } from "../../lib/client/mod.ts";
import { openAskSocket } from "./ask_socket.ts";

const BELL = "\x07";

/** How a question is shown. */
export interface AskDisplay {
  /** a program of the VM has the terminal */
  onTerminal: boolean;
}

/**
 * Shows the questions of a session with a bell until it is disposed. Without a program on the terminal they are answered
 * there; else they stand in its first line, and are answered in another one.
 */
export function showAsks(client: Client, session: string, { onTerminal }: AskDisplay): Disposable {
  let shown = Promise.resolve();
  const isTerminal = Deno.stderr.isTerminal();
  const socket = openAskSocket(client, (ask) => {
    if (ask.session_id !== session || ask.status !== "pending") return;
    if (isTerminal) write(BELL);
    if (onTerminal) writeLine(ask);
    // One question at a time.
    else shown = shown.then(() => answerHere(client, ask)).catch(() => {});
  });
  return { [Symbol.dispose]: () => socket.close() };
}

function questionOf({ ask_id, event_type, subject, rule_id, reason }: AskView): string {
  return plain(`${ask_id}: ${event_type} ${subject} (${[rule_id, reason].filter(Boolean).join(": ")})`);
}

/** Writes a question over the first line of a program's screen, and leaves its cursor where it is. */
function writeLine(ask: AskView): void {
  const { columns } = Deno.consoleSize();
  const text = `sbx asks ${questionOf(ask)}; in another terminal: sbx allow ${ask.ask_id}`;
  write(`\x1b7\x1b[1;1H\x1b[7m${text.slice(0, columns).padEnd(columns)}\x1b[m\x1b8`);
}

async function answerHere(client: Client, ask: AskView): Promise<void> {
  const { ask_id, covers } = ask;
  if (!Deno.stdin.isTerminal()) {
    return note(`sbx asks ${questionOf(ask)}: sbx allow ${ask_id}, or sbx deny ${ask_id}`);
  }
  note(`sbx asks ${questionOf(ask)}`);
  const word = prompt(
    `  allow? y = once, s = for the session${covers ? ` (${plain(covers)})` : ""}, n = no [n]`,
  );
  const answer = word?.trim().toLowerCase();
  const json: AskAnswer = answer === "s" && covers
    ? { decision: "allow", scope: "session" }
    : { decision: answer === "y" || answer === "s" ? "allow" : "deny", scope: "once" };
  await client.json("POST", `/asks/${encodeURIComponent(ask_id)}/resolve`, { json });
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}
