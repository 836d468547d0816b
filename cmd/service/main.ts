/** sbx-service: the daemon that owns the VMs of one home and serves the HTTP API on a UDS. */
import { UnixServer } from "../../lib/base/socket/mod.ts";
import { collectAtRest } from "../../lib/base/heap/mod.ts";
import { type Home, home as findHome, makeRunDir, onRemoval } from "../../lib/base/home/mod.ts";
import { outliveRejections, redactLog } from "../../lib/base/log/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { Redactor } from "../../lib/base/redact/mod.ts";
import { Service, takeLock } from "../../lib/service/mod.ts";
import { openCorp } from "../../lib/home/mod.ts";
import { checkSetting } from "../../lib/home/value_check/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { makeApp } from "./app.ts";

const NAME = "sbx-service";
const USAGE = `${NAME}

The daemon of one home (SBX_HOME, or ~/.sbx): it owns the VMs and serves the HTTP API on a Unix socket
until SIGTERM. VMs outlive it. sbx start and every command that needs it start it in the background.
`;

/** Serves until SIGTERM, SIGINT or the removal of the home. @returns the exit code */
export function main(args: string[]): Promise<number> {
  return runRole({ name: NAME, usage: USAGE, doing: "starting sbx-service", run }, args);
}

async function run(args: string[]): Promise<number> {
  if (args.length > 0) throw unknownArguments(NAME, args);
  // Sockets, records and their index are only for their user, even where other users may enter the folders.
  Deno.umask(0o077);
  const home = findHome();
  outliveRejections();
  redactLog(new Redactor().text);
  await makeRunDir(home);
  using _lock = await takeLock(home);
  const corp = openCorp(home);
  const definitions = await loadDefinitions();
  const settings = await SettingsStore.open({ home, corp, definitions, check: checkSetting });
  const service = new Service({ home, settings, corp });
  await service.load();
  service.watch();
  collectAtRest();
  await serve(makeApp(service).fetch, home, () => service.begin());
  await service.close();
  return 0;
}

/** Serves until SIGTERM, SIGINT or the removal of the home; the umask leaves the socket to this user. */
async function serve(
  fetch: (request: Request) => Response | Promise<Response>,
  { dir, serviceSocket: path }: Pick<Home, "dir" | "serviceSocket">,
  onReady: () => Promise<void>,
): Promise<void> {
  const server = UnixServer.open(path, fetch, () => void onReady());
  const stop = () => void server.close();
  for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, stop);
  await onRemoval(dir, stop);
  await server.finished;
}
