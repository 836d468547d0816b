/** A person's answer to an ask, from the inbox or from the bar above another page. */
import { api, type AskAnswer, type AskView } from "../../api/routes.ts";
import { act, notice, putAsk } from "../../store/store.ts";
import { text } from "../../text/en.ts";

/** `minutes` of an answer for minutes. */
export const MINUTES = 10;

/** The answers that a person can give. */
export const ANSWERS = {
  once: { decision: "allow", scope: "once" },
  minutes: { decision: "allow", scope: "minutes", minutes: MINUTES },
  session: { decision: "allow", scope: "session" },
  deny: { decision: "deny", scope: "once" },
} as const satisfies Record<string, AskAnswer>;

/** Answers an ask as it was shown: its digest goes along. */
export async function answer(ask: AskView, given: AskAnswer): Promise<void> {
  await act(async () => {
    putAsk(await api.resolveAsk(ask.ask_id, { ...given, digest: ask.digest }));
    // Names the request: a person who answers many sees which one it was.
    const words = text.inbox;
    const said = given.decision === "allow" ? words.allowed(ask.subject) : words.denied(ask.subject);
    notice.value = { text: said, isError: false };
  });
}
