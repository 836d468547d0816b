import { api, type AskView } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { putAsk } from "../../store/store.ts";
import { text } from "../../text/en.ts";

/** `minutes` of an answer for minutes. */
const MINUTES = 10;

/** The answers that a person can give. */
export const ANSWERS = {
  once: { decision: "allow", scope: "once" },
  minutes: { decision: "allow", scope: "minutes", minutes: MINUTES },
  session: { decision: "allow", scope: "session" },
  deny: { decision: "deny", scope: "once" },
} as const;
export type Answer = typeof ANSWERS[keyof typeof ANSWERS];

/** Answers an ask as it was shown: its digest goes along. */
export async function answer(ask: AskView, given: Answer): Promise<void> {
  const done = given.decision === "allow" ? text.inbox.allowed : text.inbox.denied;
  await act(async () => putAsk(await api.resolveAsk(ask.ask_id, { ...given, digest: ask.digest })), done);
}
