/** `sbx-admin fleet hunt`: detections over the stored records of a fleet. */
import { join } from "node:path";
import {
  type Arguments,
  type Command,
  daysOption,
  JSON_OPTION,
  sinceOf,
  usageError,
} from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import type { Compiled } from "../../../lib/detection/mod.ts";
import type { RetroReport } from "../../../lib/fleet/table/mod.ts";
import { PROGRAM } from "../program.ts";

const DAYS = 30;
const HOUR_MS = 3_600_000;
const COUNT_MAX = 1e12;
/** Most findings printed; `--json` and the store have all. */
const PRINTED = 100;
/** Exit code of a hunt stopped by its bounds before it found anything. */
const PARTIAL = 3;
const PACK_FILE = /\.(ya?ml|toml|json)$/;

/** `sbx-admin fleet hunt`: packs over the past of a store, for a timer or CI. */
export const fleetHunt: Command = {
  name: "fleet hunt",
  usage: "DIR [PACK_FILE…] [OPTIONS]",
  summary: "run packs over a fleet's past, and keep and report new findings",
  notes: [
    "Exits with 1 for new findings, and with 3 if a bound ended the hunt before it found any; the next hunt goes on from there.",
    "New and changed packs come first. Run it from a timer, after fleet tables; fleet serve --packs does so automatically.",
  ],
  options: [
    daysOption(DAYS),
    { name: "packs", value: "FOLDER", about: "run every pack of this folder too" },
    { name: "max-seconds", value: "N", about: "begin no further day of events after this time" },
    { name: "max-events", value: "N", about: "look at no more events, each counted for every pack" },
    {
      name: "due",
      value: "HOURS",
      about: "leave out packs that are unchanged and were hunted within this time",
    },
    { name: "sink", value: "URL", about: "send new findings as OCSF to this receiver too" },
    {
      name: "sink-credential",
      value: "REF",
      about: "stored token, or password with --sink-user, for --sink",
    },
    { name: "sink-user", value: "NAME", about: "user of that password" },
    { name: "engine", value: "NAME", about: "duckdb or chdb; default duckdb", choices: ["duckdb", "chdb"] },
    JSON_OPTION,
  ],
  words: { min: 1, max: 1000 },
  examples: [
    "sbx-admin fleet hunt /srv/fleet packs/*.yaml --days 90",
    "sbx-admin fleet hunt /srv/fleet --packs packs --due 24 --max-seconds 600",
  ],
  async run(args) {
    const [dir, ...paths] = args.words;
    const engine = (args.text("engine") ?? "duckdb") as "duckdb" | "chdb";
    const folder = args.text("packs");
    if (folder !== undefined) paths.push(...await packsIn(folder));
    else if (paths.length === 0) {
      throw usageError(
        { program: PROGRAM, command: fleetHunt },
        "missing word: give a pack or --packs FOLDER",
      );
    }
    const [maxSeconds, maxEvents, due] = ["max-seconds", "max-events", "due"].map((name) =>
      args.number(name, { min: 1, max: COUNT_MAX })
    );
    const { irs, problems } = await load(paths);
    const { retroHunt, sendFindings } = await import("../../../lib/fleet/table/mod.ts");
    await using sinks = await openSinks(dir, args);
    const report = await retroHunt(dir, irs, {
      engine,
      ...(sinks && { onFresh: (over, fresh) => sendFindings(dir, over, irs, fresh, sinks.open) }),
      since: sinceOf(args, DAYS),
      ...(maxSeconds !== undefined && { maxSeconds }),
      ...(maxEvents !== undefined && { maxEvents }),
      ...(due !== undefined && { due: due * HOUR_MS }),
    });
    await show(report, args);
    // After the others have run: one broken pack must not stop them.
    if (problems.length > 0) throw problems[0];
    if (report.fresh.length > 0) return 1;
    return report.complete ? 0 : PARTIAL;
  },
};

/** Time for deliveries after a hunt, in `ms`; the rest waits in the store for the next one. */
const DELIVERY_MS = timeLimit(30_000);

/** Opens the sink of the options; undefined without one. @throws {SbxError} `sink.conflict` */
async function openSinks(dir: string, args: Arguments) {
  const endpoint = args.text("sink");
  if (endpoint === undefined) return undefined;
  if (!/^https?:$/.test(URL.parse(endpoint)?.protocol ?? "")) {
    throw usageError({ program: PROGRAM, command: fleetHunt }, "--sink is not an http or https address");
  }
  const [{ FindingSinks }, { useNetworkOf }, { sinkAuthorization }] = await Promise.all([
    import("../../../lib/ledger/sink/mod.ts"),
    import("../../../lib/home/mod.ts"),
    import("../../../lib/credential/mod.ts"),
  ]);
  await useNetworkOf(home());
  const [credential_ref, user] = [args.text("sink-credential"), args.text("sink-user")];
  const authorize = credential_ref === undefined
    ? undefined
    : sinkAuthorization(home(), { credential_ref, ...(user !== undefined && { user }) });
  const open = await FindingSinks.open({
    dir: join(dir, "sinks"),
    http: { endpoint, ...(authorize && { authorize }) },
    onProblem: note,
  });
  return { open, [Symbol.asyncDispose]: () => open.close(DELIVERY_MS) };
}

async function show(report: RetroReport, args: Arguments): Promise<void> {
  if (args.has("json")) return await printJson(report);
  const { fresh, known, packs, events, seconds } = report;
  for (const { event_at, severity, rule_id, session_id, event_id } of fresh.slice(0, PRINTED)) {
    await print(`${event_at}  ${severity.padEnd(8)}  ${rule_id}  ${session_id}  ${event_id}`);
  }
  for (const { pack_id, state, reached } of packs) {
    if (state === "partial") {
      note(`${pack_id}: a bound ended the hunt${reached ? ` at ${reached}` : ""}; the next one goes on`);
    }
    if (state === "noisy") note(`${pack_id}: it matches too many events; make its rules narrower`);
  }
  const due = packs.filter(({ state }) => state !== "not_due").length;
  await print(
    `${count(fresh.length, "new finding")}, ${known} known; ${count(due, "pack")}, ` +
      `${count(events, "event")} in ${seconds.toFixed(1)} s`,
  );
}

async function load(paths: readonly string[]): Promise<{ irs: Compiled[]; problems: unknown[] }> {
  const { loadPack } = await import("../../../lib/detection/active/mod.ts");
  const loaded = await Promise.allSettled(paths.map(async (path) => (await loadPack(path)).ir));
  const irs = loaded.flatMap((each) => each.status === "fulfilled" ? [each.value] : []);
  const problems = loaded.flatMap((each) => each.status === "rejected" ? [each.reason] : []);
  if (irs.length === 0 && problems.length > 0) throw problems[0];
  return { irs, problems };
}

async function packsIn(folder: string): Promise<string[]> {
  try {
    const names = (await Array.fromAsync(Deno.readDir(folder))).filter(({ isFile, name }) =>
      isFile && PACK_FILE.test(name)
    );
    return names.map(({ name }) => join(folder, name)).sort();
  } catch (cause) {
    throw new SbxError("fleet.file.invalid", `the folder ${folder} cannot be read`, {
      cause,
      hint: "check the path",
    });
  }
}
