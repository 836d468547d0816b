import { type Arguments, type Command, daysOption, sinceOf, usageError } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { sinkAuthorization } from "../../../lib/credential/mod.ts";
import { openSource } from "../../../lib/fleet/pull/mod.ts";
import { Receiver, serveFleet } from "../../../lib/fleet/receive/mod.ts";
import { PROGRAM } from "../program.ts";
import { keepTables } from "./serve_tables.ts";

const PORT_MAX = 65_535;
const LOOPBACK = "127.0.0.1";
/** Most seconds between two tables: a day. */
const SECONDS_MAX = 86_400;

/** `sbx-admin fleet serve`: the receiver, until it is interrupted. */
export const fleetServe: Command = {
  name: "fleet serve",
  usage:
    "DIR [--tables SECONDS [--packs FOLDER [--days N]]] [--from URL] [--credential REF [--user NAME]] [--clickhouse URL [--clickhouse-credential REF]] [--host ADDRESS] [--port N] [--cert FILE --key FILE]",
  summary: "receive, verify and keep segments of enrolled machines",
  notes: [
    "Several may serve one folder, and read from one stream. Without --cert it serves on loopback only, behind a proxy that has TLS.",
  ],
  options: [
    {
      name: "from",
      value: "URL",
      about: "also read what machines put into tls://HOST (NATS), clickhouse://HOST or libsql://HOST",
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
    { name: "host", value: "ADDRESS", about: `address to listen on; default ${LOOPBACK}` },
    { name: "port", value: "N", about: "port; default any" },
    { name: "cert", value: "FILE", about: "certificate chain in PEM" },
    { name: "key", value: "FILE", about: "its private key in PEM" },
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet serve /srv/fleet --port 8443 --host 0.0.0.0 --cert fleet.pem --key fleet.key"],
  async run(args) {
    const [cert, key] = [args.text("cert"), args.text("key")];
    const hostname = args.text("host") ?? LOOPBACK;
    if ((cert === undefined) !== (key === undefined)) {
      throw usageError({ program: PROGRAM, command: fleetServe }, "--cert and --key belong together");
    }
    if (cert === undefined && !/^(127\.|::1$|localhost$)/.test(hostname)) {
      throw usageError(
        { program: PROGRAM, command: fleetServe },
        `--host ${hostname} needs --cert and --key`,
      );
    }
    const [seconds, packs] = [args.number("tables", { min: 1, max: SECONDS_MAX }), args.text("packs")];
    // Refused here, and not by each hunt.
    sinceOf(args);
    const days = args.text("days");
    if (packs !== undefined && seconds === undefined) {
      throw usageError({ program: PROGRAM, command: fleetServe }, "--packs needs --tables SECONDS");
    }
    const tls = cert === undefined ? undefined : { cert: await read(cert), key: await read(key!) };
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
      signal: stop.signal,
    });
    // Told below: the server listens until then.
    for (const work of [pulling, loading, tables]) work?.catch(() => server.shutdown());
    const { port } = server.addr;
    await print(`${tls ? "https" : "http"}://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`);
    await Promise.all([server.finished, pulling, loading, tables]);
    return 0;
  },
};

/** Opens the loader of the ClickHouse server that the options name; undefined without one. @throws {SbxError} `fleet.url.invalid` */
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
