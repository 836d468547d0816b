/**
 * Questions of policy in the editor: one at a time, with their reason and the scopes of an
 * answer, answered by the person there.
 */
import type { AgentContext, PermissionOption, RequestPermissionResponse } from "@agentclientprotocol/sdk";
import { asSbxError } from "../base/error/mod.ts";
import { note, plain } from "../base/print/mod.ts";
import type { AskAnswer, AskView } from "../client/api/mod.ts";
import { whyLine } from "../policy/ask/mod.ts";
import { OWN_CALL } from "./outward.ts";

/** Minutes of an answer for a while. */
const WHILE_MINUTES = 10;

/** The way of answers to the service: the one of `sbx allow` and `sbx deny`. */
export interface AskAnswers {
  /** the denial without a time, which holds for a while where the ask covers more events */
  denial(ask: AskView): Omit<AskAnswer, "decision">;
  answer(ask: AskView, answer: AskAnswer): Promise<void>;
}

/** An answer that a person can choose. */
interface Choice {
  option: PermissionOption;
  answer: AskAnswer;
}

/** Most asks that are remembered after their end. */
const ENDED_MAX = 1000;

/** Shows the asks of one VM in the editor. */
export class Asks {
  readonly #editor: AgentContext;
  readonly #answers: AskAnswers;
  /** asks that wait, with what ends their question */
  readonly #waiting = new Map<string, AbortController>();
  /** asks that ended, so that a list of before does not show one again; the latest */
  readonly #ended = new Set<string>();
  readonly #session = Promise.withResolvers<void>();
  #current?: string;
  #last: Promise<void> = this.#session.promise;

  constructor(editor: AgentContext, answers: AskAnswers) {
    this.#editor = editor;
    this.#answers = answers;
  }

  /**
   * The session in which questions appear: the one that a person wrote into last. Before
   * it there is no place for them.
   */
  set session(id: string) {
    this.#current = id;
    this.#session.resolve();
  }

  /** Takes an ask that is new, or that has been answered anywhere. */
  see(ask: AskView): void {
    if (ask.status !== "pending") {
      this.#waiting.get(ask.ask_id)?.abort();
      this.#waiting.delete(ask.ask_id);
      this.#ended.add(ask.ask_id);
      if (this.#ended.size > ENDED_MAX) this.#ended.delete(this.#ended.keys().next().value!);
    } else if (!this.#waiting.has(ask.ask_id) && !this.#ended.has(ask.ask_id)) {
      const ended = new AbortController();
      this.#waiting.set(ask.ask_id, ended);
      this.#last = this.#last.then(() => ended.signal.aborted ? undefined : this.#show(ask, ended.signal))
        .catch((error) => {
          const { message, hint } = asSbxError(error, "the answer");
          note(
            `sbx: the ask ${ask.ask_id} was not answered in the editor: ${
              [message, hint].filter(Boolean).join("; ")
            }`,
          );
        });
    }
  }

  async #show(ask: AskView, signal: AbortSignal): Promise<void> {
    const sessionId = this.#current!;
    const toolCallId = `${OWN_CALL}${ask.ask_id}`;
    const choices = choicesOf(ask, this.#answers.denial(ask));
    const call = {
      toolCallId,
      title: `sbx asks: allow ${asText(`${ask.event_type} ${ask.subject}`)}?`,
      kind: "fetch" as const,
      status: "pending" as const,
      content: [{ type: "content" as const, content: { type: "text" as const, text: reasonOf(ask) } }],
    };
    await this.#editor.notify("session/update", {
      sessionId,
      update: { sessionUpdate: "tool_call", ...call },
    });
    let isAllowed = false;
    try {
      const { outcome } = await this.#editor.request("session/request_permission", {
        sessionId,
        toolCall: call,
        options: choices.map(({ option }) => option),
      }, { cancellationSignal: signal, stopWaitingOnCancel: true }) as RequestPermissionResponse;
      const chosen = outcome.outcome === "selected"
        ? choices.find(({ option }) => option.optionId === outcome.optionId)
        : undefined;
      if (chosen) {
        await this.#answers.answer(ask, chosen.answer);
        isAllowed = chosen.answer.decision === "allow";
      } else note(`sbx: ${ask.ask_id} still waits: sbx allow ${ask.ask_id}, or sbx deny ${ask.ask_id}`);
    } catch (error) {
      // Answered elsewhere, or too late: the question ends without an answer from here.
      if (!signal.aborted) throw error;
    } finally {
      const status = isAllowed ? "completed" : "failed";
      await this.#editor.notify("session/update", {
        sessionId,
        update: { sessionUpdate: "tool_call_update", toolCallId, status },
      });
    }
  }
}

function reasonOf(ask: AskView): string {
  const { ask_id, rule_id, reason, covers, covers_host } = ask;
  const lines = [
    `Rule ${rule_id}: ${reason}`,
    whyLine(ask) || undefined,
    covers && `An answer for the session covers: ${covers}`,
    covers_host && `An answer for the host covers: ${covers_host}`,
    `In a terminal: sbx allow ${ask_id}, or sbx deny ${ask_id}`,
  ];
  return lines.filter((line) => line !== undefined).map(asText).join("\n\n");
}

/**
 * A line that an editor shows as it is written. Editors read texts as Markdown, and a guest chose parts of
 * this one: it must neither look like another question nor load a picture from anywhere.
 */
function asText(line: string): string {
  return plain(line).replaceAll(/[\\`*[\]<>]/g, "\\$&");
}

/** The answers that an ask takes, narrowest first. */
function choicesOf({ covers, covers_host }: AskView, denial: Omit<AskAnswer, "decision">): Choice[] {
  const allow = (optionId: string, name: string, answer: Omit<AskAnswer, "decision">): Choice => ({
    option: { optionId, name, kind: answer.scope === "once" ? "allow_once" : "allow_always" },
    answer: { decision: "allow", ...answer },
  });
  const minutes = { scope: "minutes", minutes: WHILE_MINUTES } as const;
  return [
    allow("once", "Allow once", { scope: "once" }),
    ...covers ? [allow("session", "Allow like this for the session", { scope: "session" })] : [],
    ...covers_host
      ? [
        allow("host-while", `Allow the host for ${WHILE_MINUTES} minutes`, { ...minutes, of: "host" }),
        allow("host", "Allow the host for the session", { scope: "session", of: "host" }),
      ]
      : [],
    {
      option: { optionId: "deny", name: "Deny", kind: "reject_once" },
      answer: { decision: "deny", ...denial },
    },
    ...covers_host
      ? [{
        option: {
          optionId: "deny-host",
          name: "Deny the host for the session",
          kind: "reject_always" as const,
        },
        answer: { decision: "deny" as const, scope: "session" as const, of: "host" as const },
      }]
      : [],
  ];
}
