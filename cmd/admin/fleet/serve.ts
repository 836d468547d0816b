/** `sbx-admin fleet serve`: the receiver of records, with its tables and hunts. */
import { type Arguments, type Command, daysOption, sinceOf, usageError } from "../../../lib/base/args/mod.ts";
import { asSbxError, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { sinkAuthorization } from "../../../lib/credential/mod.ts";
import { openSource } from "../../../lib/fleet/pull/mod.ts";
import { Receiver, serveFleet } from "../../../lib/fleet/receive/mod.ts";
import { PROGRAM } from "../program.ts";
import { LISTEN_OPTIONS, listenTerms, PORT_MAX } from "./listen.ts";
import { log } from "../../../lib/base/log/mod.ts";
import { selfCommand } from "../../../lib/base/spawn/mod.ts";
import { pause } from "../../../lib/base/time/mod.ts";

// Tables and hunts beside a receiver run in processes of their own, so that none can crash the receiver.

/** Hours after which an unchanged pack is hunted again. */
const DUE_HOURS = 24;
const TEXT_MAX = 500;

interface TableWork {
  dir: string;
  /** between two rounds */
  seconds: number;
  /** folder of packs that are hunted, new and changed ones at once */
  packs?: string;
  /** days of the past that those packs search */
  days?: string;
  /** options of a sink for their findings */
  sink: string[];
  signal: AbortSignal;
}

/** Writes tables until aborted. Another receiver writing them on the same store does the work of both. */
async function keepTables({ dir, seconds, packs, days, sink, signal }: TableWork): Promise<void> {
  let problem = "";
  while (!signal.aborted) {
    try {
      await run(["fleet", "tables", dir, "--json"], signal);
      if (packs !== undefined) {
        // A hunt takes at most the time between two tables, and continues with the next.
        const bounds = ["--due", String(DUE_HOURS), "--max-seconds", String(seconds)];
        if (days !== undefined) bounds.push("--days", days);
        bounds.push(...sink);
        await run(["fleet", "hunt", dir, "--packs", packs, ...bounds, "--json"], signal, [0, 1, 3]);
      }
      problem = "";
    } catch (cause) {
      const { message } = asSbxError(cause, "writing tables");
      if (message !== problem && !signal.aborted) log.warn(message);
      problem = message;
    }
    await pause(seconds * 1000, signal);
  }
}

async function run(args: string[], signal: AbortSignal, good = [0]): Promise<void> {
  const { cmd, args: command } = selfCommand("admin", args);
  const { code, stdout, stderr } = await new Deno.Command(cmd, { args: command, stdin: "null", signal })
    .output();
  if (good.includes(code)) {
    const findings = args[1] === "hunt" ? JSON.parse(new TextDecoder().decode(stdout)).fresh.length : 0;
    if (findings > 0) log.warn(`${findings} new findings in the past of the fleet: findings/ of the store`);
    if (!isError(stdout)) return;
  }
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (/fleet\.(tables|hunt)\.busy|another program (writes|hunts)/.test(text)) return;
  // Before the first segment there is nothing to hunt in.
  if (text.includes("has no tables")) return;
  throw new SbxError(
    "fleet.tables.failed",
    `${args.slice(0, 2).join(" ")} failed: ${text.trim().slice(0, TEXT_MAX)}`,
  );
}

/** Distinguishes an error from a report: both may end with the same exit code. */
function isError(stdout: Uint8Array): boolean {
  try {
    return typeof JSON.parse(new TextDecoder().decode(stdout)).error !== "undefined";
  } catch {
    return true;
  }
}

/** Most seconds between two tables: a day. */
const SECONDS_MAX = 86_400;

/** `sbx-admin fleet serve`: the receiver, until it is interrupted. */
export const fleetServe: Command = {
  name: "fleet serve",
  usage:
    "DIR [--tables SECONDS [--packs FOLDER [--days N] [--sink URL]]] [--from URL] [--credential REF [--user NAME]] [--clickhouse URL [--clickhouse-credential REF]] [--host ADDRESS] [--port N] [--cert FILE --key FILE]",
  summary: "receive, verify and keep segments of enrolled machines",
  notes: [
    "Several may serve one folder, and read from one stream. Without --cert it serves on loopback only, behind a proxy that has TLS.",
  ],
  options: [
    {
      name: "from",
      value: "URL",
      about: "also read what machines put into the stream of tls://HOST (NATS)",
    },
    { name: "credential", value: "REF", about: "stored token or password for --from" },
    { name: "user", value: "NAME", about: "user of that password; absent: a token" },
    {
      name: "clickhouse",
      value: "URL",
      about: "also load rows into clickhouse://[USER@]HOST[:PORT][/DATABASE]",
    },
    { name: "clickhouse-credential", value: "REF", about: "stored password of that user" },
    {
      name: "tables",
      value: "SECONDS",
      about: "also write what arrived as Parquet, this often; needs DuckDB",
    },
    { name: "packs", value: "FOLDER", about: "also run new and changed packs of this folder over the past" },
    daysOption(30),
    { name: "sink", value: "URL", about: "send findings of the packs as OCSF to this receiver" },
    {
      name: "sink-credential",
      value: "REF",
      about: "stored token, or password with --sink-user, for --sink",
    },
    { name: "sink-user", value: "NAME", about: "user of that password" },
    ...LISTEN_OPTIONS,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet serve /srv/fleet --port 8443 --host 0.0.0.0 --cert fleet.pem --key fleet.key"],
  async run(args) {
    const { hostname, files } = listenTerms(args, fleetServe);
    const [seconds, packs] = [args.number("tables", { min: 1, max: SECONDS_MAX }), args.text("packs")];
    // Refused here, and not by each hunt.
    sinceOf(args);
    const days = args.text("days");
    if (packs !== undefined && seconds === undefined) {
      throw usageError({ program: PROGRAM, command: fleetServe }, "--packs needs --tables SECONDS");
    }
    const sink = ["sink", "sink-credential", "sink-user"].flatMap((name) => {
      const value = args.text(name);
      return value === undefined ? [] : [`--${name}`, value];
    });
    if (sink.length > 0 && (packs === undefined || args.text("sink") === undefined)) {
      throw usageError(
        { program: PROGRAM, command: fleetServe },
        "--sink needs --packs FOLDER, and its credential --sink",
      );
    }
    const tls = files && { cert: await read(files.cert), key: await read(files.key) };
    // Refused before anything is made or listens.
    const from = args.text("from");
    const pull = from === undefined
      ? undefined
      : openSource(from, authorizeOf(args.text("credential"), args.text("user")));
    const load = await openLoader(args);
    await Deno.mkdir(args.words[0], { recursive: true, mode: 0o700 });
    const [dir] = args.words;
    const receiver = new Receiver(dir);
    const server = await serveFleet({
      dir,
      receiver,
      hostname,
      port: args.number("port", { min: 0, max: PORT_MAX }) ?? 0,
      ...(tls && { tls }),
    });
    const stop = new AbortController();
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      Deno.addSignalListener(signal, () => {
        stop.abort();
        server.shutdown();
      });
    }
    const pulling = pull?.({ dir, receiver, signal: stop.signal });
    const loading = load?.(dir, stop.signal);
    const tables = seconds === undefined ? undefined : keepTables({
      dir,
      seconds,
      ...(packs !== undefined && { packs }),
      ...(days !== undefined && { days }),
      sink,
      signal: stop.signal,
    });
    // Reported below: the server listens until then.
    for (const work of [pulling, loading, tables]) work?.catch(() => server.shutdown());
    const { port } = server.addr;
    await print(`${tls ? "https" : "http"}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`);
    await Promise.all([server.finished, pulling, loading, tables]);
    return 0;
  },
};

/**
 * Opens the loader of the ClickHouse server that the options name; undefined without one.
 * @throws {SbxError} `fleet.url.invalid`
 */
async function openLoader(
  args: Arguments,
): Promise<((dir: string, signal: AbortSignal) => Promise<void>) | undefined> {
  const url = args.text("clickhouse");
  if (url === undefined) return undefined;
  const [{ ClickHouseClient, parseClickHouse }, { ClickHouseLoader, keepLoading }] = await Promise.all([
    import("../../../lib/fleet/clickhouse/mod.ts"),
    import("../../../lib/fleet/table/mod.ts"),
  ]);
  const address = parseClickHouse(url);
  const client = new ClickHouseClient(
    address,
    authorizeOf(args.text("clickhouse-credential"), address.user),
  );
  return (dir, signal) => keepLoading(new ClickHouseLoader(dir, client), signal);
}

/** A stored credential, as collectors get it. */
function authorizeOf(credential_ref: string | undefined, user: string | undefined) {
  if (credential_ref === undefined) return undefined;
  return sinkAuthorization(home(), { credential_ref, ...(user !== undefined && { user }) });
}

async function read(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw new SbxError("fleet.file.invalid", `${path} cannot be read`, { cause, hint: "check the path" });
  }
}
