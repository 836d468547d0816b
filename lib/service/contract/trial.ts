/** Drafts of rules, tried on recorded events before they are saved (docs/design/contracts/02-http.md §2). */
import { TRIED_MAX, type TryResult } from "../../client/api/mod.ts";
import { PAGE_EVENTS_MAX } from "../../ledger/read/mod.ts";
import type { LabEvent } from "../../lab/mod.ts";
import type { Lint, RuleDraft } from "../../policy/author/mod.ts";
import { readAcross, type RecordedSession } from "../record/across/mod.ts";
import { eventsOf } from "../record/ledger.ts";
import type { Rules } from "./rules.ts";

/** Events to try a draft on: a record, or the newest events of many. */
export type TriedOn = { ledger: string } | { sessions: readonly RecordedSession[]; since: number };

interface TriedDraft {
  /** about the draft, and about rules for which it is the reason */
  lints: Lint[];
  /** absent without events, or for a draft that cannot be saved */
  effect?: TryResult["effect"];
}

/**
 * Tries an unsaved rule of a profile: its remarks, and the recorded events that it decides in
 * another way than the rules of now.
 *
 * @param on absent: the remarks alone
 * @param limit most events that are listed
 * @throws {SbxError} `profile.not_found`; `policy.invalid`: other rules do not compile
 */
export async function tryDraft(
  rules: Rules,
  profileId: string,
  draft: RuleDraft,
  { on, limit, signal }: { on?: TriedOn; limit: number; signal?: AbortSignal },
): Promise<TriedDraft> {
  const { draftProblem } = await import("../../policy/author/mod.ts");
  const problem = draftProblem(draft);
  if (problem) return { lints: [problem] };
  const [before, after] = await Promise.all([
    rules.policyOf(profileId),
    rules.policyWith(profileId, draft),
  ]);
  const lints = (await rules.lint(after)).filter(({ rule_id, layer, other_rule_id }) =>
    rule_id === draft.rule_id && layer === "profile" || other_rule_id === draft.rule_id
  );
  if (on === undefined) return { lints };
  const { effectAcross, effectOf } = await import("../../lab/mod.ts");
  if ("ledger" in on) {
    const effect = await effectOf(before, after, eventsOf(on.ledger), { limit, signal });
    return { lints, effect: { ...effect, sessions: 1, has_older: false } };
  }
  const { events, hasOlder } = await newestOf(on.sessions, on.since, signal);
  const effect = await effectAcross(before, after, events, { limit, signal });
  const sessions = new Set(events.map(({ common }) => common.session_id)).size;
  return { lints, effect: { ...effect, sessions, has_older: hasOlder } };
}

/** The newest events of sessions, oldest first. */
async function newestOf(
  sessions: readonly RecordedSession[],
  since: number,
  signal?: AbortSignal,
): Promise<{ events: LabEvent[]; hasOlder: boolean }> {
  const found: LabEvent[] = [];
  let cursor: string | undefined;
  do {
    signal?.throwIfAborted();
    const limit = Math.min(PAGE_EVENTS_MAX, TRIED_MAX - found.length);
    const page = await readAcross(sessions, { since }, { cursor, limit, order: "newest" });
    found.push(...page.events as unknown as LabEvent[]);
    cursor = page.next_cursor;
  } while (cursor !== undefined && found.length < TRIED_MAX);
  return { events: found.reverse(), hasOlder: cursor !== undefined };
}
