/** `sbx-admin fleet erase`, `export` and `retain`: life of data in a store. */
import { type Arguments, type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { userName } from "../../../lib/base/user/mod.ts";
import { sinkAuthorization } from "../../../lib/credential/mod.ts";
import type { EraseTables, Erasure } from "../../../lib/fleet/erase/mod.ts";
import { PROGRAM } from "../program.ts";

const SUBJECT = [
  { name: "person", value: "NAME", about: "all homes of a user, on every machine" },
  { name: "machine", value: "NAME", about: "a machine by its whole name or id, with its homes" },
  { name: "session", value: "ID", about: "one session" },
];

const SERVER = [
  {
    name: "clickhouse",
    value: "URL",
    about: "also delete the rows from clickhouse://[USER@]HOST[:PORT][/DATABASE]",
  },
  { name: "clickhouse-credential", value: "REF", about: "stored password of that user" },
];

/** The one subject that the options name. */
function subjectOf(args: Arguments, command: Command) {
  const [person, machine, session] = ["person", "machine", "session"].map((name) => args.text(name));
  if ([person, machine, session].filter((each) => each !== undefined).length !== 1) {
    throw usageError({ program: PROGRAM, command }, "give one of --person, --machine and --session");
  }
  return {
    ...(person !== undefined && { person }),
    ...(machine !== undefined && { machine }),
    ...(session !== undefined && { session }),
  };
}

async function tablesOf(args: Arguments): Promise<EraseTables | undefined> {
  const url = args.text("clickhouse");
  if (url === undefined) return undefined;
  const [{ ClickHouseClient, parseClickHouse }, { serverTables }] = await Promise.all([
    import("../../../lib/fleet/clickhouse/mod.ts"),
    import("../../../lib/fleet/table/mod.ts"),
  ]);
  const address = parseClickHouse(url);
  const credential_ref = args.text("clickhouse-credential");
  const { user } = address;
  const authorize = credential_ref === undefined
    ? undefined
    : sinkAuthorization(home(), { credential_ref, ...(user !== undefined && { user }) });
  return serverTables(new ClickHouseClient(address, authorize));
}

async function show(dir: string, erasure: Erasure): Promise<void> {
  for (const { session_id, events, outcomes, journal } of erasure.sessions) {
    await print(`${session_id}  ${count(events + outcomes + journal, "row")}`);
  }
  for (const { session_id } of erasure.unverified) {
    note(`${session_id}: segments that do not verify stay: sbx-admin fleet verify ${dir}`);
  }
  const more = [
    count(erasure.findings, "finding"),
    count(erasure.parts, "part of tables", "parts of tables"),
    count(erasure.machines.length, "name"),
  ];
  await print(`erased ${count(erasure.sessions.length, "session")}, ${more.join(", ")}`);
  await print(`statement: ${dir}/statements/${erasure.id}.json`);
  if (erasure.parts > 0) note(`sbx-admin fleet tables ${dir} writes the other rows of those parts again`);
}

/** `sbx-admin fleet erase`. */
export const fleetErase: Command = {
  name: "fleet erase",
  usage:
    "DIR --person NAME | --machine NAME | --session ID [--reason TEXT] [--clickhouse URL [--clickhouse-credential REF]] [--json]",
  summary: "erase the rows of a person, machine or session, and keep a signed statement of it",
  notes: [
    "Hashes stay, so that fleet verify still follows each chain. The machine's own ledgers are not touched, and rows that come later are not erased.",
    "A stream (NATS) keeps its messages until they expire; backups are not touched. Exits with 1 if segments that do not verify stay.",
  ],
  options: [
    ...SUBJECT,
    { name: "reason", value: "TEXT", about: "reason in the statement; name no person" },
    ...SERVER,
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet erase /srv/fleet --person ann --reason 'request 2026-114'"],
  async run(args) {
    const [dir] = args.words;
    const wanted = subjectOf(args, fleetErase);
    const { erase, findSubject } = await import("../../../lib/fleet/erase/mod.ts");
    const subject = await findSubject(dir, wanted);
    const tables = await tablesOf(args);
    const reason = args.text("reason");
    const erasure = await erase(dir, {
      by: userName(),
      cause: "request",
      ...subject,
      ...(reason !== undefined && { reason }),
      ...(tables && { tables }),
    });
    if (args.has("json")) await printJson({ erasure: erasure ?? null });
    else if (erasure) await show(dir, erasure);
    else await print("nothing was left to erase");
    return erasure && erasure.unverified.length > 0 ? 1 : 0;
  },
};

/** `sbx-admin fleet export`. */
export const fleetExport: Command = {
  name: "fleet export",
  usage: "DIR --person NAME | --machine NAME | --session ID --to FOLDER [--json]",
  summary: "write all rows of a person, machine or session as JSON, for a data subject",
  notes: [
    "FOLDER is made. Each session is a file with a JSON object a line; export.json has their hashes, signed by the store, and the log notes the export.",
  ],
  options: [
    ...SUBJECT,
    { name: "to", value: "FOLDER", about: "folder that does not exist yet" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet export /srv/fleet --person ann --to ann-2026"],
  async run(args) {
    const [dir] = args.words;
    const wanted = subjectOf(args, fleetExport);
    const to = args.text("to");
    if (to === undefined) throw usageError({ program: PROGRAM, command: fleetExport }, "missing option --to");
    const { exportSubject, findSubject } = await import("../../../lib/fleet/erase/mod.ts");
    const exported = await exportSubject(dir, await findSubject(dir, wanted), { to, by: userName() });
    if (args.has("json")) await printJson(exported);
    else {
      const rows = exported.sessions.reduce((sum, { rows }) => sum + rows, exported.findings?.rows ?? 0);
      await print(`${count(rows, "row")} of ${count(exported.sessions.length, "session")} in ${to}`);
    }
    return 0;
  },
};

/** `sbx-admin fleet retain`. */
export const fleetRetain: Command = {
  name: "fleet retain",
  usage: "DIR [--dry-run] [--clickhouse URL [--clickhouse-credential REF]] [--json]",
  summary: "erase rows that are older than retention.toml of the store allows",
  notes: ["Run it from a timer. Age counts from the arrival; rows that no rule fits are kept."],
  options: [
    { name: "dry-run", about: "show how many segments may have such rows, and change nothing" },
    ...SERVER,
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet retain /srv/fleet --dry-run"],
  async run(args) {
    const [dir] = args.words;
    const { applyRetention } = await import("../../../lib/fleet/erase/mod.ts");
    const isTrial = args.has("dry-run");
    const tables = await tablesOf(args);
    const report = await applyRetention(dir, { by: userName(), isTrial, ...(tables && { tables }) });
    if (args.has("json")) await printJson(report);
    else if (report.erasure) await show(dir, report.erasure);
    else {
      const segments = count(report.segments, "segment");
      await print(isTrial ? `${segments} may have rows that are too old` : "no row is too old");
    }
    return report.erasure && report.erasure.unverified.length > 0 ? 1 : 0;
  },
};
