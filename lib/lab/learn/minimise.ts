/** The rules of a learned profile that the commands of its sessions cannot do without. */
import { SbxError } from "../../base/error/mod.ts";
import type { LabEvent } from "../mod.ts";
import { withoutRule } from "../../policy/author/mod.ts";
import { parseToml, setKey } from "../../base/toml/mod.ts";
import { type LearnedProfile, REST } from "./profile.ts";

/** Most commands that are run again (docs/design/contracts/14-limits.md §14). */
const COMMANDS_MAX = 200;

/** A program that the host ran in a session. */
export interface RecordedCommand {
  argv: string[];
  cwd: string;
  exit_code: number;
}

/**
 * Programs that the host ran to their end, in their order.
 *
 * @throws {SbxError} `learn.commands`: no commands, or too many
 */
export async function commandsOf(
  events: Iterable<LabEvent> | AsyncIterable<LabEvent>,
): Promise<RecordedCommand[]> {
  const begun = new Map<string, { argv: string[]; cwd: string; exit_code?: number }>();
  for await (const { common, process } of events) {
    if (common.actor !== "host" || !process) continue;
    const { operation, argv, cwd, exit_code } = process.activity;
    if (operation === "exec") begun.set(common.event_id, { argv, cwd });
    const exec = begun.get(common.labels.event_id);
    if (operation === "exit" && exec) exec.exit_code = exit_code;
  }
  const ended = [...begun.values()].filter((each): each is RecordedCommand => each.exit_code !== undefined);
  if (ended.length > 0 && ended.length <= COMMANDS_MAX) return ended;
  throw new SbxError(
    "learn.commands",
    ended.length === 0
      ? "the session has no program that sbx ran to its end"
      : `the session ran ${ended.length} programs; at most ${COMMANDS_MAX} are run again`,
    { hint: "record a session for this: sbx create NAME, and one sbx exec for each step" },
  );
}

/** Result of a search for the smallest set. */
export interface Minimum<T> {
  kept: T[];
  /** trials that were made */
  runs: number;
  /** false: it ended at the bound, and a smaller set may pass */
  isComplete: boolean;
}

/**
 * Finds items none of which can be left out, by leaving out ever smaller parts (delta debugging).
 *
 * @param passes whether a trial with these items passes; all of them have passed
 * @param runs most trials
 */
export async function minimise<T>(
  items: readonly T[],
  passes: (kept: readonly T[]) => Promise<boolean>,
  runs: number,
): Promise<Minimum<T>> {
  let kept = [...items], made = 0;
  // Rules that cannot be left out stay until the end.
  for (let size = Math.ceil(kept.length / 2), at = 0; kept.length > 0;) {
    if (at >= kept.length) {
      if (size === 1) break;
      size = Math.ceil(size / 2);
      at = 0;
    }
    if (made === runs) return { kept, runs: made, isComplete: false };
    const fewer = [...kept.slice(0, at), ...kept.slice(at + size)];
    made++;
    if (await passes(fewer)) kept = fewer;
    else at += size;
  }
  return { kept, runs: made, isComplete: true };
}

/**
 * Builds a learned profile without some of its rules.
 *
 * @param id of the result
 * @param strict block everything that is not allowed, instead of asking
 */
export function without(
  { text }: Pick<LearnedProfile, "text">,
  ids: readonly string[],
  { id, strict = false }: { id: string; strict?: boolean },
): string {
  let document = setKey(parseToml(text, `profile ${id}`), [], "id", id);
  for (const rule of ids) document = withoutRule(document, rule);
  if (!strict) return document.text;
  document = setKey(document, ["profiles", "rules", REST.id], "action", "block");
  return REST.asked.reduce((text, words, at) => text.replace(words, REST.blocked[at]), document.text);
}
