/**
 * Questions that a run without a person ended with: the ones that still wait, and events
 * refused for want of an answer.
 */
import type { AskList, WhyResult } from "../../../lib/client/api/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";

/** Most questions of each kind that are listed, and most refused events that are looked up. */
const SHOWN_MAX = 20;

/** A question that no one answered. */
export interface Unanswered {
  subject: string;
  rule_id: string;
  /** absent: it waits no more, and the event was refused */
  ask_id?: string;
  event_id: string;
  /** commands that answer it, or show why the event was refused */
  commands: string[];
}

/** A refused event of a session, one for each subject. */
export interface RefusedEvent {
  event_id: string;
  subject: string;
}

/** Finds the questions of a session that no one answered. @param refused its refused events */
export async function unansweredOf(
  client: Client,
  { name, session }: { name: string; session: string },
  refused: readonly RefusedEvent[],
): Promise<Unanswered[]> {
  const { asks } = await client.json<AskList>("GET", "/asks");
  const expired = await Promise.all(
    refused.slice(0, SHOWN_MAX).map(async ({ event_id, subject }): Promise<Unanswered[]> => {
      const path = `/sessions/${segment(session)}/events/${segment(event_id)}/why`;
      const { decision } = await client.json<WhyResult>("GET", path);
      const { answered, rule } = decision ?? {};
      // One whose program was answered first may wait for a person yet.
      const waits = asks.some(({ ask_id }) => ask_id === answered?.ask_id);
      if (answered?.status !== "expired" || waits) return [];
      const commands = [`sbx why ${event_id} ${name}`];
      return [{ subject, rule_id: rule!.id, event_id, commands }];
    }),
  );
  const waiting = asks.filter(({ session_id }) => session_id === session).slice(0, SHOWN_MAX);
  return [
    ...waiting.map(({ ask_id, event_id, event_type, subject, rule_id, covers_host }): Unanswered => ({
      subject: `${event_type} ${subject} (${rule_id})`,
      rule_id,
      ask_id,
      event_id,
      commands: [`sbx allow ${ask_id}${covers_host ? " --host" : ""}`, `sbx deny ${ask_id}`],
    })),
    ...expired.flat(),
  ];
}

/** The questions with a command each, one a line; empty where every question was answered. */
export function formatUnanswered(asks: readonly Unanswered[]): string[] {
  const lines = (title: string, of: readonly Unanswered[]) =>
    of.length === 0 ? [] : [
      title,
      ...of.map(({ subject, commands }) =>
        `  ${plain(subject)}: ${commands.map((each) => plain(each)).join(", or ")}`
      ),
    ];
  const waiting = asks.filter(({ ask_id }) => ask_id !== undefined);
  const ended = asks.filter(({ ask_id }) => ask_id === undefined);
  return [
    ...lines(`${count(waiting.length, "question")} still waiting for an answer:`, waiting),
    ...lines(`${count(ended.length, "event")} refused because no one answered in time:`, ended),
    ...ended.length > 0 ? ["sbx asks --follow, in another terminal, shows such questions while it runs"] : [],
  ];
}
