import { dirname, resolve } from "node:path";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { LabSession } from "../../../lib/lab/mod.ts";
import type { LearnCheck, LearnedProfile } from "../../../lib/lab/learn/mod.ts";
import { table, usageError } from "../output.ts";
import { FILE_NOTE, RecordedEvents } from "../record/event_query.ts";

/** Profile that provides a learned one's machine when its sessions do not agree on another. */
const BASE_DEFAULT = "code";
/** VMs of --minimise: without --runs, and most (docs/design/contracts/14-limits.md §14). */
const RUNS_DEFAULT = 30;
const RUNS_MAX = 500;
/** Id of a learned profile that is only printed. */
const ID_DEFAULT = "learned";

export const command: Command = {
  name: "learn",
  usage: "SESSION|FILE… [--base PROFILE] [--save ID] [--minimise] | --check PROFILE SESSION|FILE…",
  summary: "make the smallest profile that allows what sessions did",
  notes: [
    "The profile asks about everything else.",
    FILE_NOTE,
    "A profile is printed, or saved as a new one, only if a replay proves that it refuses nothing recorded.",
    "--minimise runs the commands of one session again, including their effects outside, in a fresh VM for each trial, " +
    "and leaves out every rule without which they still end the same.",
    "With --check, the exit code is 1 if the profile would refuse or ask about something recorded.",
  ],
  options: [
    {
      name: "base",
      value: "PROFILE",
      about:
        "take machine, credentials, MCP servers, blocks and rewrites from this profile; else that of the sessions",
    },
    { name: "save", value: "ID", about: "save as a new profile of this id, instead of printing it" },
    { name: "minimise", about: "leave out rules that the commands of the session do not need" },
    { name: "runs", value: "N", about: `most trials of --minimise (default ${RUNS_DEFAULT})` },
    {
      name: "check",
      value: "PROFILE",
      about: "check this profile, by its id or the path of its profile.toml",
    },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1000 },
  completes: [{ either: ["sessions", "files"] }],
  examples: [
    "sbx learn demo",
    "sbx learn demo --minimise --save demo-least",
    "sbx learn demo other --save demo-only",
    "sbx learn --check demo-only demo",
  ],
  async run(args) {
    const checked = args.text("check");
    if (checked !== undefined && ["base", "save", "minimise"].some((name) => args.has(name))) {
      throw usageError(
        command,
        "--check makes no profile, so it takes none of --base, --save and --minimise",
      );
    }
    if (args.has("runs") && !args.has("minimise")) throw usageError(command, "--runs needs --minimise");
    if (args.has("minimise") && args.words.length > 1) {
      throw usageError(command, "--minimise takes one session");
    }
    const recorded = new RecordedEvents();
    const sessions = () => args.words.map((id): LabSession => ({ id, events: recorded.of(id) }));
    return checked === undefined ? await learn(args, sessions) : await check(args, checked, sessions());
  },
};

async function learn(args: Arguments, sessions: () => LabSession[]): Promise<number> {
  const [{ learnProfile }, { loadProfile, saveProfile }] = await Promise.all([
    import("../../../lib/lab/learn/mod.ts"),
    import("../../../lib/config/profile/mod.ts"),
  ]);
  const base = await loadProfile(home(), args.text("base") ?? await profileOf(sessions()));
  const saved = args.text("save");
  const id = saved ?? ID_DEFAULT;
  const made = await learnProfile({ id, base, sessions });
  const found = args.has("minimise") ? await minimised(args, made, () => sessions()[0]) : undefined;
  const { text, ...learned } = found ?? made;
  const path = saved === undefined ? undefined : await saveProfile(home(), saved, text);
  if (args.has("json")) await printJson({ ...learned, text, ...(path && { path }) });
  else if (path === undefined) await print(text.trimEnd());
  const { rules, check: { needed_count, refused_count } } = learned;
  note(
    `${needed_count - refused_count} of ${count(needed_count, "recorded event")} would pass by ${
      count(rules.length, "rule")
    }${path ? `: ${path}` : ""}`,
  );
  if (found && !found.minimised.complete) {
    const trials = count(found.minimised.runs, "trial");
    note(`the search ended at its bound of ${trials}: a larger --runs may leave out more rules`);
  }
  return 0;
}

/** Leaves out the rules that the commands of the session do not need. */
async function minimised(args: Arguments, made: LearnedProfile, session: () => LabSession) {
  const { minimiseProfile } = await import("./learn_minimise.ts");
  return await minimiseProfile(made, session, args.number("runs", { min: 1, max: RUNS_MAX }) ?? RUNS_DEFAULT);
}

async function check(args: Arguments, profile: string, sessions: LabSession[]): Promise<number> {
  const { checkProfile } = await import("../../../lib/lab/learn/mod.ts");
  const report = await checkProfile(await rulesOf(profile), sessions);
  await (args.has("json") ? printJson(report) : print(formatCheck(report)));
  return report.ok ? 0 : 1;
}

/** Rules of a profile by id or path, with its rule file. */
async function rulesOf(word: string) {
  const [{ loadProfile, validateProfile }, { profileRules }, { readRules }] = await Promise.all([
    import("../../../lib/config/profile/mod.ts"),
    import("../../../lib/lab/learn/mod.ts"),
    import("../../../lib/policy/author/mod.ts"),
  ]);
  const profile = await (word.endsWith(".toml") ? validateProfile(word) : loadProfile(home(), word));
  const file = profile.rule_files?.enforcement;
  const path = file === undefined ? undefined : resolve(dirname(profile.path!), file);
  return [...profileRules(profile), ...path ? await readRules(path, ["profile", "default"]) : []];
}

/** Profile of the first event of every session. @throws {SbxError} `learn.base`: they differ */
async function profileOf(sessions: LabSession[]): Promise<string> {
  const ids = new Set<string>();
  for (const { events } of sessions) {
    for await (const { common } of events) {
      ids.add(common.profile_id);
      break;
    }
  }
  if (ids.size <= 1) return [...ids][0] || BASE_DEFAULT;
  throw new SbxError("learn.base", `the sessions had the profiles ${[...ids].toSorted().join(", ")}`, {
    hint: "name the one to begin with: --base PROFILE",
  });
}

function formatCheck({ ok, needed_count, session_count, refused_count, refused }: LearnCheck): string {
  const head = `${count(needed_count, "event")} of ${count(session_count, "session")}: ${
    ok ? "all would pass" : `${refused_count} would not pass`
  }`;
  if (ok) return head;
  const rows = refused.map((
    { event_id, decision, rule_id, subject },
  ) => [event_id, `${decision} ${rule_id}`, subject]);
  return `${head}\n${table(["EVENT", "DECISION", "SUBJECT"], rows)}`;
}
