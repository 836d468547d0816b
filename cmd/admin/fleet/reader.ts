/** `sbx-admin fleet reader` and `asked`: who may read a store, and who asked what. */
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { sinkAuthorization } from "../../../lib/credential/mod.ts";
import { LISTEN_OPTIONS, listenTerms, PORT_MAX } from "./listen.ts";

/** `sbx-admin fleet reader`: questions over a store for accounts of a company, until it is interrupted. */
export const fleetReader: Command = {
  name: "fleet reader",
  usage: "DIR [--over RECORDS [--credential REF]] [--host ADDRESS] [--port N] [--cert FILE --key FILE]",
  summary: "answer questions over a store for accounts of an OpenID provider, and log who asked what",
  notes: [
    "reader.toml of the store names the provider, teams and roles. Nothing but the log is written, and nothing is answered that is not in it.",
    "Without --cert it serves on loopback only, behind a proxy that has TLS.",
  ],
  options: [
    { name: "over", value: "RECORDS", about: "tables; default duckdb:// and DIR, or clickhouse://HOST" },
    { name: "credential", value: "REF", about: "stored password for --over" },
    ...LISTEN_OPTIONS,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet reader /srv/fleet --port 8444 --host 0.0.0.0 --cert fleet.pem --key fleet.key"],
  async run(args) {
    const [dir] = args.words;
    const { hostname, files } = listenTerms(args, fleetReader);
    const port = args.number("port", { min: 1, max: PORT_MAX }) ?? 0;
    const [{ readClientSecret, readReaderFile, serveReader }, { openRecords }, { useNetworkOf }] =
      await Promise.all([
        import("../../../lib/fleet/reader/mod.ts"),
        import("../../../lib/fleet/table/mod.ts"),
        import("../../../lib/home/mod.ts"),
      ]);
    const config = await readReaderFile(dir);
    await useNetworkOf(home());
    const { client_secret_file } = config.oidc;
    const secret = client_secret_file === undefined ? undefined : await readClientSecret(client_secret_file);
    const over = args.text("over") ?? `duckdb://${dir}`;
    const credential_ref = args.text("credential");
    const user = URL.canParse(over) ? decodeURIComponent(new URL(over).username) : "";
    const authorize = credential_ref === undefined
      ? undefined
      : sinkAuthorization(home(), { credential_ref, ...(user !== "" && { user }) });
    const open = async () => {
      const records = await openRecords(over, authorize);
      if (records.table) return { ...records, table: records.table };
      await records[Symbol.asyncDispose]();
      throw new SbxError("fleet.over.invalid", `${over} has ledgers only`, {
        hint: `sbx-admin fleet tables ${dir} writes tables`,
      });
    };
    // Refused here, and not by each question.
    await (await open())[Symbol.asyncDispose]();
    const tls = files && {
      cert: await Deno.readTextFile(files.cert),
      key: await Deno.readTextFile(files.key),
    };
    const reader = await serveReader({
      dir,
      config,
      hostname,
      port,
      open,
      ...(secret !== undefined && { secret }),
      ...(tls && { tls }),
    });
    await print(`${tls ? "https" : "http"}://${hostname}:${reader.addr.port}`);
    await new Promise<void>((resolve) => {
      for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, resolve);
    });
    await reader.shutdown();
    return 0;
  },
};

/** `sbx-admin fleet asked`: the log of the read-only service. */
export const fleetAsked: Command = {
  name: "fleet asked",
  usage: "DIR [--json]",
  summary: "show the questions to fleet reader with the accounts that asked, and verify the log of them",
  notes: ["Exits with 1 if a line does not follow the one before."],
  options: [JSON_OPTION],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin fleet asked /srv/fleet"],
  async run(args) {
    const { readAsked, shownAsked } = await import("../../../lib/fleet/reader/mod.ts");
    const { asked, problem } = await readAsked(args.words[0]);
    if (args.has("json")) await printJson({ asked, ...(problem && { problem }) });
    else {
      for (const each of asked) await print(shownAsked(each));
      if (problem) await print(`NOT OK: ${problem}`);
      else if (asked.length === 0) await print("no questions");
    }
    return problem ? 1 : 0;
  },
};
