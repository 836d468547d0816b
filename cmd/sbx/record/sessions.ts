/** `sbx sessions`: recorded sessions, the removal of records, and the check of their register. */
import type { RemovedSession, SessionList } from "../../../lib/client/api/mod.ts";
import type { Entry } from "../../../lib/fleet/register/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { segment } from "../../../lib/client/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";
import { CHOICE_OPTIONS, choiceOf } from "./across.ts";
import { readPeriod } from "./event_query.ts";

export const command: CommandGroup = {
  name: "sessions",
  summary: "list sessions, remove records, verify their register",
  fallback: "list",
  subcommands: [
    {
      name: "sessions list",
      usage: "[--past] [--profile ID] [--vm NAME] [--since TIME] [--until TIME] [--json]",
      summary: "list the recorded sessions, of deleted VMs too",
      notes: [UTC_NOTE],
      options: [
        { name: "past", about: "only sessions that have ended" },
        ...CHOICE_OPTIONS.filter(({ name }) => name !== "all"),
        {
          name: "since",
          value: "TIME",
          about: "only ones that were there from this time on, as of sbx events",
        },
        { name: "until", value: "TIME", about: "only ones that began before this time" },
        JSON_OPTION,
      ],
      examples: ["sbx sessions", "sbx sessions --past --since yesterday"],
      run: list,
    },
    {
      name: "sessions delete",
      usage: "SESSION… [--export DIR] [--yes] [--json]",
      summary: "remove the records of sessions whose VMs are gone",
      notes: [
        "A signed tombstone stays in the register of sessions. Corp may keep records: by its retention, or a hold.",
        "--export copies each record, its seal and the states of its findings into DIR/SESSION first, and verifies the copy.",
      ],
      options: [
        { name: "export", value: "DIR", about: "folder for copies of the records" },
        { name: "yes", short: "y", about: "do not ask" },
        JSON_OPTION,
      ],
      words: { min: 1, max: Infinity },
      completes: ["sessions"],
      examples: ["sbx sessions delete 0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e --export ./evidence"],
      run: remove,
    },
    {
      name: "sessions verify",
      usage: "[--json]",
      summary: "verify the register of sessions: its numbers, chain and signatures",
      notes: [
        "Each session has a number in it since before its first event, and a removed record its tombstone.",
        "The exit code is 1 if an entry is missing or was changed, or a record is gone without a tombstone.",
      ],
      options: [JSON_OPTION],
      examples: ["sbx sessions verify"],
      run: verify,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const query = {
    ...choiceOf(args),
    ...(args.has("past") && { state: "past" }),
    ...await readPeriod(args),
  };
  const { sessions } = await (await connect()).json<SessionList>("GET", "/sessions/list", { query });
  if (args.has("json")) await printJson({ sessions });
  else {
    const rows = sessions.map(({ id, name, profile_id, agent, created_at, ended_at, user, client }) => [
      id,
      name,
      profile_id,
      agent ?? "",
      created_at.slice(0, 19),
      ended_at?.slice(0, 19) ?? "",
      user === undefined ? "" : `${user} (${client})`,
    ]);
    await print(table(["SESSION", "NAME", "PROFILE", "AGENT", "CREATED", "ENDED", "MADE BY"], rows));
  }
  return 0;
}

async function remove(args: Arguments): Promise<number> {
  const client = await connect();
  const chosen: SessionList["sessions"] = [];
  for (const word of new Set(args.words)) {
    // One query for each: the list of all sessions lacks the oldest.
    const query = { vm: word };
    const { sessions } = await client.json<SessionList>("GET", "/sessions/list", { query });
    const session = sessions.find(({ id }) => id === word);
    if (!session) {
      throw new SbxError("session.not_found", `"${word}" is not the id of a recorded session`, {
        hint: "sbx sessions lists them; names of VMs are not unique",
      });
    }
    chosen.push(session);
  }
  if (!args.has("yes") && !confirm(chosen.map(({ id, name }) => `${id} (${name})`), args)) return 1;
  const dir = args.text("export");
  const removed: RemovedSession[] = [];
  for (const { id, name } of chosen) {
    if (dir !== undefined) {
      const { exportRecord } = await import("../../../lib/ledger/read/mod.ts");
      const { sessionPaths } = await import("../../../lib/session/files/mod.ts");
      await exportRecord(sessionPaths(home(), id).ledger, id, dir);
    }
    const result = await client.json<RemovedSession>("DELETE", `/sessions/${segment(id)}`);
    removed.push(result);
    if (args.has("json")) continue;
    await print(`removed the record of ${id} (${name}): ${count(result.events, "event")}`);
  }
  if (args.has("json")) await printJson({ removed });
  return 0;
}

function confirm(names: string[], args: Arguments): boolean {
  if (Deno.stdin.isTerminal() && !args.has("json")) {
    return isYes(`remove ${names.join(", ")} for good?`);
  }
  throw new SbxError(
    "usage.invalid",
    "sbx sessions delete needs a confirmation, and there is no terminal for it",
    { hint: "confirm with --yes" },
  );
}

/** Reads the home's files, not the service's answers: the check must not trust the service. */
async function verify(args: Arguments): Promise<number> {
  const [{ readRegister, registerPath }, { readMachineKey }, { sessionPaths }] = await Promise.all([
    import("../../../lib/fleet/register/mod.ts"),
    import("../../../lib/release/signing/mod.ts"),
    import("../../../lib/session/files/mod.ts"),
  ]);
  const path = registerPath(home());
  const key = await readMachineKey(home());
  if (key === undefined) {
    throw new SbxError(
      "register.not_found",
      `there is no register of sessions at ${path}: no session began`,
      { hint: "sbx status starts the service, which begins one with the first VM" },
    );
  }
  const { entries, problems } = await readRegister(path, key);
  const { kept, removed, unread } = follow(entries);
  problems.push(...unread);
  for (const [id, number] of kept) {
    const { ledger } = sessionPaths(home(), id);
    const hasRecord = await Deno.stat(ledger).then(({ isFile }) => isFile, () => false);
    if (!hasRecord) problems.push(`session ${id}, number ${number}, has no record, and no tombstone`);
  }
  const ok = problems.length === 0;
  if (args.has("json")) {
    await printJson({ ok, path, entries: entries.length, sessions: kept.size, removed, problems });
  } else if (ok) {
    await print(
      `${path}: valid, ${count(kept.size, "session")} with a record, ${count(removed, "record")} removed`,
    );
  } else await print([`${path}: INVALID`, ...problems.map((problem) => `  ${problem}`)].join("\n"));
  return ok ? 0 : 1;
}

/** State of the records by the register's entries. */
interface FollowedEntries {
  /** numbers of the sessions whose records must be there, by session id */
  kept: Map<string, number>;
  /** number of removed records */
  removed: number;
  /** problems of records that were removed without being read: one line each */
  unread: string[];
}

function follow(entries: readonly Entry[]): FollowedEntries {
  const kept = new Map<string, number>();
  const unread: string[] = [];
  let removed = 0;
  for (const entry of entries) {
    if (entry.kind === "restarted") continue;
    const { session_id, number } = entry;
    if (entry.kind !== "removed") {
      kept.set(session_id, number);
      continue;
    }
    if (kept.delete(session_id)) removed++;
    const { heads, reason, by } = entry.removal;
    if (heads !== null) continue;
    const why = `${reason}${by ? ` by ${by.user}` : ""}, entry ${number}`;
    unread.push(`session ${session_id}: its record was missing or unreadable when it was removed (${why})`);
  }
  return { kept, removed, unread };
}
