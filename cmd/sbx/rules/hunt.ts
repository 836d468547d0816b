/** `sbx hunt`: one detection over the records of every session here, or of a fleet. */
import { join } from "node:path";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { Compiled } from "../../../lib/detection/mod.ts";
import type { Watch } from "../../../lib/policy/mod.ts";
import { table, usageError } from "../output.ts";
import { CREDENTIAL, recordsAuthorization } from "./secret.ts";

/** Most matches printed or returned. */
const ROWS_MAX = 100_000;
const ROWS = 1000;

/** A match, in whichever records it was found. */
interface Match {
  machine_id: string;
  session_id: string;
  event_id: string;
  timestamp_unix_ms: number;
  rule_id: string;
  severity: string;
  title: string;
  retro?: true;
}

export const command: Command = {
  name: "hunt",
  usage:
    "[PACK_FILE…] [--rules FILE] [--over sessions|duckdb://PATH|chdb://PATH|clickhouse://HOST] [--credential REF] [--limit N] [--fail] [--json]",
  summary: "evaluate packs over many sessions or a whole fleet",
  notes: [
    'Of --rules the rules with action "observe" are evaluated, over the sessions of this machine only.',
    "sessions are the ledgers of this machine; duckdb:// and chdb:// take the store of a fleet, chdb:// also a folder of ledgers.",
    "clickhouse://[USER@]HOST[:PORT][/DATABASE] is a server that fleet serve --clickhouse fills; TLS unless it is on this machine.",
    "The exit code is 0 with or without matches; with --fail it is 1 if there are any.",
  ],
  options: [
    {
      name: "rules",
      value: "FILE",
      many: true,
      about: 'rules, of which the ones with action "observe" count',
    },
    { name: "over", value: "RECORDS", about: "where to hunt; default sessions" },
    ...CREDENTIAL,
    { name: "limit", value: "N", about: `most matches in the answer; default ${ROWS}` },
    { name: "fail", about: "exit with 1 if anything matches, for CI" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 100 },
  completes: ["files"],
  examples: [
    "sbx hunt exfiltration.yaml",
    "sbx hunt exfiltration.yaml --over duckdb:///srv/fleet --fail",
    "sbx hunt --rules watch.toml",
  ],
  run,
};

async function run(args: Arguments): Promise<number> {
  const limit = args.number("limit", { min: 1, max: ROWS_MAX }) ?? ROWS;
  const rules = args.list("rules");
  if (args.words.length + rules.length === 0) {
    throw usageError(command, "missing file: give packs, or rules with --rules");
  }
  const [irs, watch] = await Promise.all([readPacks(args.words), readObservers(rules)]);
  const over = args.text("over") ?? "sessions";
  if (watch && over !== "sessions") {
    throw new SbxError("usage.invalid", `rules of policy cannot be evaluated over ${over}`, {
      hint: "leave out --over to hunt in the sessions of this machine; over a fleet, write a Sigma rule",
    });
  }
  const matches = over === "sessions" ? await huntSessions(irs, watch) : await huntFleet(args, over, irs);
  const shown = matches.slice(0, limit).map((match) => ({ ...match, retro: true }));
  if (args.has("json")) await printJson({ over, match_count: matches.length, matches: shown });
  else if (matches.length === 0) await print("no matches");
  else {
    await print(table(
      ["TIME", "SEVERITY", "RULE", "SESSION", "EVENT", "MACHINE"],
      shown.map(({ timestamp_unix_ms, severity, rule_id, session_id, event_id, machine_id }) => [
        new Date(timestamp_unix_ms).toISOString(),
        severity,
        rule_id,
        session_id,
        event_id,
        machine_id.slice(0, 16),
      ]),
    ));
    const rest = matches.length - shown.length;
    note(`${count(matches.length, "match", "matches")}${rest ? `; ${rest} not shown: --limit` : ""}`);
  }
  return args.has("fail") && matches.length > 0 ? 1 : 0;
}

async function readPacks(paths: readonly string[]): Promise<Compiled[]> {
  const { loadPack } = await import("../../../lib/detection/active/mod.ts");
  return await Promise.all(paths.map(async (path) => (await loadPack(path)).ir));
}

/**
 * @returns `undefined` without files
 * @throws {SbxError} `policy.invalid`: also where no rule only observes
 */
async function readObservers(paths: readonly string[]): Promise<Watch | undefined> {
  if (paths.length === 0) return undefined;
  const [{ readRules }, { compilePolicy, Watch }] = await Promise.all([
    import("../../../lib/policy/author/mod.ts"),
    import("../../../lib/policy/mod.ts"),
  ]);
  const policy = compilePolicy((await Promise.all(paths.map((path) => readRules(path)))).flat());
  if (policy.observers.rules.length > 0) return new Watch(policy);
  throw new SbxError("policy.invalid", `no rule of ${paths.join(", ")} has action "observe"`, {
    hint: "sbx lab SESSION --rules FILE tries rules that decide",
  });
}

async function huntFleet(args: Arguments, over: string, irs: Compiled[]): Promise<Match[]> {
  const { hunt, openRecords } = await import("../../../lib/fleet/table/mod.ts");
  await (await import("../../../lib/home/mod.ts")).useNetworkOf(home());
  await using opened = await openRecords(over, recordsAuthorization(args));
  return await hunt(opened, irs);
}

/** Hunts in the ledgers of this home, by the matcher. */
async function huntSessions(irs: Compiled[], watch: Watch | undefined): Promise<Match[]> {
  const [{ Matcher }, { readEvents }] = await Promise.all([
    import("../../../lib/detection/mod.ts"),
    import("../../../lib/ledger/read/mod.ts"),
  ]);
  const matcher = new Matcher(irs);
  const matches: Match[] = [];
  const failed = new Map<string, number>();
  for (const session_id of await sessionIds()) {
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(join(home().dir, "ledgers", session_id, "session.db"), {
        cursor,
        limit: 1000,
      });
      for (const event of page.events) {
        const { event_id, timestamp_unix_ms } = event.common;
        const place = { machine_id: "", session_id, event_id, timestamp_unix_ms };
        for (const { rule: { id: rule_id, severity, title } } of matcher.hits(event)) {
          matches.push({ ...place, rule_id, severity, title });
        }
        const { findings = [], failures = [] } = watch?.observe(event, event.decision) ?? {};
        for (const { rule_id, severity, title } of findings) {
          matches.push({ ...place, rule_id, severity, title });
        }
        for (const { message } of failures) failed.set(message, (failed.get(message) ?? 0) + 1);
      }
      cursor = page.next_cursor;
    }
  }
  for (const [message, times] of failed) note(`${message} (${count(times, "event")})`);
  return matches;
}

async function sessionIds(): Promise<string[]> {
  const ids: string[] = [];
  try {
    for await (const { name, isDirectory } of Deno.readDir(join(home().dir, "ledgers"))) {
      if (
        isDirectory &&
        await Deno.stat(join(home().dir, "ledgers", name, "session.db")).then(() => true, () => false)
      ) {
        ids.push(name);
      }
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return ids.sort();
}
