/** The rules of a learned profile that the commands of its sessions cannot do without. */
import { SbxError } from "../../base/error/mod.ts";
import { GUEST_WORKSPACE } from "../../event/mod.ts";
import type { LabEvent } from "../mod.ts";
import { withoutRule } from "../../policy/author/mod.ts";
import { parseToml, setKey } from "../../base/toml/mod.ts";
import { type LearnedProfile, REST } from "./profile.ts";

/** Most commands that are run again, and files brought in again (docs/design/contracts/14-limits.md §14). */
const COMMANDS_MAX = 200;
const FILES_MAX = 10_000;

/** A program that the host ran in a session. */
export interface RecordedCommand {
  argv: string[];
  cwd: string;
  exit_code: number;
  /** sbx's own program that brings a repository or folder in */
  isOwn?: true;
}

/** A file, folder or link that a person brought in. */
export interface RecordedFile {
  /** in the guest */
  path: string;
  kind: "file" | "folder" | "link";
  /** permission bits of a file, in octal */
  mode?: string;
  /** hash of its content, or of a link's target */
  blake3?: string;
}

/** The commands of a session, with the files that they began with. */
export interface RecordedSteps {
  /** in their order, up to the last command of a person */
  steps: ({ command: RecordedCommand } | { file: RecordedFile })[];
  /** commands of a person */
  commands: number;
}

/**
 * Programs that the host ran to their end, and files that it brought in before the last of them.
 *
 * @throws {SbxError} `learn.commands`: no commands, or too many; `learn.not_repeatable`: the record lacks a
 * file's content
 */
export async function stepsOf(events: Iterable<LabEvent> | AsyncIterable<LabEvent>): Promise<RecordedSteps> {
  const begun = new Map<string, Omit<RecordedCommand, "exit_code"> & { exit_code?: number }>();
  const all: (RecordedFile | string)[] = [];
  for await (const event of events) {
    const { common, process } = event;
    if (common.actor !== "host") continue;
    const file = broughtFile(event);
    if (file) all.push(file);
    if (!process || common.labels.port !== undefined || common.labels.repository === "read") continue;
    const { operation, argv, cwd, exit_code } = process.activity;
    const isOwn = common.labels.repository === "bring";
    if (operation === "exec") {
      begun.set(common.event_id, { argv, cwd, ...isOwn && { isOwn } });
      all.push(common.event_id);
    }
    const exec = begun.get(common.labels.event_id);
    if (operation === "exit" && exec) exec.exit_code = exit_code;
  }
  const steps: RecordedSteps["steps"] = [];
  let commands = 0, end = 0, files = 0;
  for (const each of all) {
    if (typeof each !== "string") {
      steps.push({ file: each });
      files++;
      continue;
    }
    const { exit_code, ...program } = begun.get(each)!;
    if (exit_code === undefined) continue;
    steps.push({ command: { ...program, exit_code } });
    if (program.isOwn) continue;
    commands++;
    end = steps.length;
  }
  if (commands > 0 && commands <= COMMANDS_MAX && files <= FILES_MAX) {
    return { steps: steps.slice(0, end), commands };
  }
  throw new SbxError(
    "learn.commands",
    commands === 0
      ? "the session has no program that sbx ran to its end"
      : `the session ran ${commands} programs and brought ${files} files in; at most ${COMMANDS_MAX} and ${FILES_MAX} are repeated`,
    { hint: "record a session for this: sbx create NAME, and one sbx exec for each step" },
  );
}

/** The file that an event brought in. @throws {SbxError} `learn.not_repeatable` */
function broughtFile({ common, file, decision }: LabEvent): RecordedFile | undefined {
  const { kind, mode, blake3, live, snapshot, client } = common.labels;
  if (file?.activity.operation !== "import" || (decision !== undefined && decision !== "allow")) {
    return undefined;
  }
  const { path } = file.activity;
  // Files of keys, which every VM gets.
  if (client === "sbx-service" && !path.startsWith(`${GUEST_WORKSPACE}/`)) return undefined;
  if (kind === "folder") return { path, kind };
  if ((kind === "file" || kind === "link") && blake3 !== undefined) {
    return { path, kind, ...mode !== undefined && { mode }, blake3 };
  }
  throw new SbxError(
    "learn.not_repeatable",
    live !== undefined
      ? `the session had the folder "${live}" of this host itself`
      : snapshot !== undefined
      ? `the session restored the snapshot ${snapshot}`
      : `the record of an earlier version of sbx does not show how "${path}" was brought in`,
    {
      hint:
        "record another session: sbx create NAME --from-dir DIR, and one sbx exec for each step; or learn without --minimise",
    },
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
