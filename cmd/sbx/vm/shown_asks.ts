/**
 * A session's policy questions (asks) on the terminal of the command that runs in it, and the letters that
 * answer them.
 */
import type { AskAnswer, AskList, AskResolve, AskView } from "../../../lib/client/api/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { READ_MS, whyLine } from "../../../lib/policy/ask/mod.ts";
import { openAskSocket } from "../connect.ts";
import { coversOf, saveAsRule, shortDenial } from "../rules/answer.ts";
import type { Banner } from "./attach.ts";
import { READABLE } from "./question_screen.ts";

const BELL = "\x07";

/** Letters for the wider reaches of an answer, in the order in which a question shows them. */
const REACHES = [["p", "path"], ["m", "method"], ["h", "host"]] as const;
/** `a`, a rule for the session's reach; `ap`, `am` and `ah`, rules for a wider one. */
const ALWAYS = /^a([pmh]?)$/;

/**
 * Shows a session's asks, with a bell, until it is disposed; also the ones already waiting.
 *
 * @param banner of the program that has the terminal: asks are shown in it, and answered on its question
 * screen; absent: they are printed, and answered in place
 */
export function showAsks(client: Client, session: string, banner?: Banner): Disposable {
  const isTerminal = Deno.stderr.isTerminal();
  const pending = new Map<string, AskView>();
  const showNew = Deno.stdin.isTerminal() ? promptInTurn(client) : noteOncePerSubject();
  const onAsk = (ask: AskView) => {
    if (ask.session_id !== session) return;
    const isNew = ask.status === "pending" && !pending.has(ask.ask_id);
    if (ask.status === "pending") pending.set(ask.ask_id, ask);
    else pending.delete(ask.ask_id);
    if (isNew && isTerminal) write(BELL);
    if (banner) banner.set(bannerLine([...pending.values()]));
    else if (isNew) showNew(ask);
  };
  if (banner) {
    banner.questions = {
      pending: () => [...pending.values()],
      text: (ask) => `${questionOf(ask)}\n${choicesOf(ask)}`,
      answer: async (ask, line) => {
        await sendAnswer(client, ask, line, () => Promise.resolve());
        pending.delete(ask.ask_id);
        banner.set(bannerLine([...pending.values()]));
      },
    };
  }
  const socket = openAskSocket(client, onAsk);
  client.json<AskList>("GET", "/asks").then(({ asks }) => asks.forEach(onAsk)).catch((error) => {
    // The program's screen must not be written over; new asks come by the socket.
    if (!banner) report("pending asks cannot be read", error);
  });
  return { [Symbol.dispose]: () => socket.close() };
}

/** Prompts for each ask, one at a time. */
function promptInTurn(client: Client): (ask: AskView) => void {
  let last = Promise.resolve();
  return (ask) => {
    last = last.then(() => promptFor(client, ask))
      .catch((error) => report(`the answer to ${ask.ask_id} was not taken`, error));
  };
}

/** Prints the commands that answer, once per subject: a resolver asks for the same name again and again. */
function noteOncePerSubject(): (ask: AskView) => void {
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

/** The first ask and the number of the others; a line that is cut short still has the id and the commands. */
function bannerLine(asks: AskView[]): string | undefined {
  const [first] = asks;
  if (!first) return undefined;
  const { ask_id, subject, rule_id } = first;
  const more = asks.length > 1 ? ` (+${asks.length - 1})` : "";
  return plain(
    `ctrl-^ answers, or sbx allow|deny ${ask_id}${more}: ${subject}${rule_id ? ` (rule ${rule_id})` : ""}`,
  );
}

/**
 * Sends a typed answer; one for always saves its rule first.
 *
 * @param say prints text about that rule
 * @throws {SbxError} the service refused the answer or the rule
 */
async function sendAnswer(
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

/** Prompts until the ask has an answer: a rule that cannot be saved leaves the narrower answers. */
async function promptFor(client: Client, ask: AskView): Promise<void> {
  const { ask_id } = ask;
  if (Deno.stderr.isTerminal()) write(READABLE);
  note(`sbx asks ${questionOf(ask)}`);
  for (;;) {
    const line = readAnswer(`  ${choicesOf(ask)} [n]`);
    try {
      return await sendAnswer(client, ask, line, (text) => Promise.resolve(note(text)));
    } catch (error) {
      if (!isAlways(line)) throw error;
      report(`the rule for ${ask_id} was not saved`, error);
    }
  }
}

function isAlways(line: string | null): boolean {
  return ALWAYS.test(normalized(line));
}

function normalized(line: string | null): string {
  return line?.trim().toLowerCase() ?? "";
}

/** The answers that a person may type, in one line. */
export function choicesOf(ask: AskView): string {
  const meaning = (covers: string | undefined) =>
    covers ? `for the session (${plain(covers)})` : "for the session";
  const wider = REACHES.filter(([, of]) => coversOf(ask, of));
  const choices = ["y = once", `s = ${meaning(ask.covers)}`];
  for (const [letter, of] of wider) choices.push(`${letter} = ${meaning(coversOf(ask, of))}`);
  if (ask.covers) {
    const letters = wider.map(([letter]) => letter);
    const rules = letters.map((letter) => `a${letter}`).join(", ");
    choices.push(`a = always, as s by a rule${rules && ` (${rules}: as ${letters.join(", ")})`}`);
  }
  return `allow? ${[...choices, "n = no"].join(", ")}`;
}

/**
 * The answer for a typed line. A letter that its question does not show denies, as an empty line does; for
 * some minutes, since programs try again at once.
 */
export function answerOf(ask: AskView, line: string | null): AskAnswer {
  const typed = normalized(line);
  // The session's answer covers the event until the rule applies.
  const letter = ask.covers ? typed.replace(ALWAYS, (_, wide: string) => wide || "s") : typed;
  const [, of] = REACHES.find(([each]) => each === letter) ?? [];
  if (of && coversOf(ask, of)) return { decision: "allow", scope: "session", of };
  if (letter === "s" && ask.covers) return { decision: "allow", scope: "session" };
  if (letter === "y" || letter === "s") return { decision: "allow", scope: "once" };
  return { decision: "deny", ...shortDenial(ask) };
}

/** Reads a line, and ignores one typed before its question could be read: it was meant for the last one. */
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
