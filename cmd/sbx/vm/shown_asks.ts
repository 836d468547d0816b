/** Questions of policy on the terminal of a command, answered there. */
import type { AskAnswer, AskList, AskResolve, AskView } from "../../../lib/client/api/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { READ_MS, whyLine } from "../../../lib/policy/ask/mod.ts";
import { openAskSocket } from "../connect.ts";
import { saveAsRule, shortDenial } from "../rules/answer.ts";
import type { Banner } from "./attach.ts";
import { READABLE } from "./question_screen.ts";

const BELL = "\x07";

/**
 * Shows a session's questions with a bell until it is disposed, including the ones already waiting. With a
 * banner, where a program has the terminal, they are shown there and answered in another terminal; else they
 * are answered in place.
 */
export function showAsks(client: Client, session: string, banner?: Banner): Disposable {
  const isTerminal = Deno.stderr.isTerminal();
  const pending = new Map<string, AskView>();
  const showNew = Deno.stdin.isTerminal() ? questionsInTurn(client) : notesOnce();
  const onAsk = (ask: AskView) => {
    if (ask.session_id !== session) return;
    const isNew = ask.status === "pending" && !pending.has(ask.ask_id);
    if (ask.status === "pending") pending.set(ask.ask_id, ask);
    else pending.delete(ask.ask_id);
    if (isNew && isTerminal) write(BELL);
    if (banner) banner.set(lineOf([...pending.values()]));
    else if (isNew) showNew(ask);
  };
  if (banner) {
    banner.questions = {
      pending: () => [...pending.values()],
      text: (ask) => `${questionOf(ask)}\n${choicesOf(ask)}`,
      answer: async (ask, line) => {
        await giveAnswer(client, ask, line, () => Promise.resolve());
        pending.delete(ask.ask_id);
        banner.set(lineOf([...pending.values()]));
      },
    };
  }
  const socket = openAskSocket(client, onAsk);
  client.json<AskList>("GET", "/asks").then(({ asks }) => asks.forEach(onAsk)).catch((error) => {
    // The program's screen must not be written over; new asks come by the socket.
    if (!banner) report("the asks that wait cannot be read", error);
  });
  return { [Symbol.dispose]: () => socket.close() };
}

/** Asks the person at the terminal, one question at a time. */
function questionsInTurn(client: Client): (ask: AskView) => void {
  let shown = Promise.resolve();
  return (ask) => {
    shown = shown.then(() => answerHere(client, ask))
      .catch((error) => report(`the answer to ${ask.ask_id} was not taken`, error));
  };
}

/**
 * Names the commands that answer; once a subject, since a resolver asks for the same name again and again.
 */
function notesOnce(): (ask: AskView) => void {
  const noted = new Set<string>();
  return (ask) => {
    if (!noted.has(ask.subject)) {
      note(`sbx asks ${questionOf(ask)}: sbx allow ${ask.ask_id}, or sbx deny ${ask.ask_id}`);
    }
    noted.add(ask.subject);
  };
}

function report(failure: string, cause: unknown): void {
  const { message, hint } = asSbxError(cause, "the request");
  note(`sbx: ${failure}: ${[message, hint].filter(Boolean).join("; ")}`);
}

/** A question on one line. */
export function questionOf(ask: AskView): string {
  const { ask_id, event_type, subject, rule_id, reason } = ask;
  const rule = [rule_id, reason].filter(Boolean).join(": ");
  return plain([`${ask_id}: ${event_type} ${subject} (${rule})`, whyLine(ask)].filter(Boolean).join("; "));
}

/** The first question and the number of the others, in one line; its beginning is enough to answer it. */
function lineOf(asks: AskView[]): string | undefined {
  const [first] = asks;
  if (!first) return undefined;
  const { ask_id, subject, rule_id } = first;
  const more = asks.length > 1 ? ` (+${asks.length - 1})` : "";
  return plain(
    `ctrl-^ answers, or sbx allow|deny ${ask_id}${more}: ${subject}${rule_id ? ` (rule ${rule_id})` : ""}`,
  );
}

/**
 * Sends a typed answer.
 * @param say prints text about a rule that is saved
 * @throws {SbxError} it was not taken
 */
async function giveAnswer(
  client: Client,
  ask: AskView,
  line: string | null,
  say: (text: string) => Promise<void>,
): Promise<void> {
  const answer = answerOf(ask, line);
  if (answer.decision === "allow" && isAlways(line)) await saveAsRule(client, ask, answer, say);
  const json: AskResolve = { ...answer, digest: ask.digest };
  await client.json("POST", `/asks/${encodeURIComponent(ask.ask_id)}/resolve`, { json });
}

async function answerHere(client: Client, ask: AskView): Promise<void> {
  const { ask_id } = ask;
  if (Deno.stderr.isTerminal()) write(READABLE);
  note(`sbx asks ${questionOf(ask)}`);
  for (;;) {
    const line = readAnswer(`  ${choicesOf(ask)} [n]`);
    try {
      return await giveAnswer(client, ask, line, (text) => Promise.resolve(note(text)));
    } catch (error) {
      if (!isAlways(line)) throw error;
      report(`${ask_id} is not allowed for always`, error);
    }
  }
}

/** True for an answer that is to be saved as a rule: `a`, and `ap`, `am` or `ah`. */
function isAlways(line: string | null): boolean {
  return /^a[pmh]?$/.test(typedOf(line));
}

function typedOf(line: string | null): string {
  return line?.trim().toLowerCase() ?? "";
}

/** The answers that a person may type, in words. */
export function choicesOf({ covers, covers_host, covers_method, covers_path }: AskView): string {
  const session = covers ? ` (${plain(covers)})` : "";
  const host = covers_host ? `, h = for the session (${plain(covers_host)})` : "";
  const path = covers_path ? `, p = for the session (${plain(covers_path)})` : "";
  const method = covers_method ? `, m = for the session (${plain(covers_method)})` : "";
  const wider = [covers_path && "p", covers_method && "m", covers_host && "h"].filter(Boolean);
  const alwaysWider = wider.length > 0
    ? ` (${wider.map((letter) => `a${letter}`).join(", ")}: as ${wider.join(", ")})`
    : "";
  const always = covers ? `, a = always, as s by a rule${alwaysWider}` : "";
  return `allow? y = once, s = for the session${session}${path}${method}${host}${always}, n = no`;
}

/**
 * The answer that a person typed; anything else, and nothing, is a no, which holds for a
 * while: programs try again at once.
 */
export function answerOf(ask: AskView, line: string | null): AskAnswer {
  const always = isAlways(line) && ask.covers;
  // The session's answer covers the event until the rule does.
  const typed = always ? typedOf(line).slice(1) || "s" : typedOf(line);
  if (typed === "h" && ask.covers_host) return { decision: "allow", scope: "session", of: "host" };
  if (typed === "p" && ask.covers_path) return { decision: "allow", scope: "session", of: "path" };
  if (typed === "m" && ask.covers_method) return { decision: "allow", scope: "session", of: "method" };
  if (typed === "s" && ask.covers) return { decision: "allow", scope: "session" };
  if (typed === "y" || typed === "s") return { decision: "allow", scope: "once" };
  return { decision: "deny", ...shortDenial(ask) };
}

/**
 * Reads a line, without input typed before its question could be read, such as a second answer to the last
 * question.
 */
function readAnswer(question: string): string | null {
  for (;;) {
    const shownAt = performance.now();
    const line = prompt(question);
    if (line === null || performance.now() - shownAt >= READ_MS) return line;
    note("  ignored: it was typed before the question could be read");
  }
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}
