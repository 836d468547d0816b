/** sbx-service: the daemon that owns the VMs of one home and serves the HTTP API on a UDS. */
import { corpPath, CorpStore } from "../../lib/corp/mod.ts";
import { asSbxError } from "../../lib/base/error/mod.ts";
import { home as findHome, writeAtomic } from "../../lib/base/home/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/settings/mod.ts";
import { checkCorp, checkSetting, Supervisor, watchCorp } from "../../lib/service/mod.ts";
import { makeApp } from "./app.ts";
import { takeLock } from "../../lib/service/lock.ts";
import { log, outliveRejections, say } from "../../lib/base/log/mod.ts";

/** When old sessions are looked for: some time after the start, which has better things to do, and then daily. */
const PRUNE_DELAY_MS = 10_000;
const PRUNE_MS = 24 * 3600 * 1000;
/** How often ledgers of ended sessions are offered to a collecting server that was away. */
const COLLECT_MS = 60_000;
/** How often a pid file that could not be written is tried again. */
const PID_RETRY_MS = 1000;

export async function main(): Promise<number> {
  // Sockets, records and their index are their user's only, whoever may enter the folders.
  Deno.umask(0o077);
  const home = findHome();
  outliveRejections();
  try {
    await Deno.mkdir(home.runDir, { recursive: true, mode: 0o700 });
    using _lock = await takeLock(home);
    const corp = new CorpStore(home, corpPath(), checkCorp);
    const settings = await SettingsStore.open({
      home,
      corp,
      definitions: await loadDefinitions(),
      check: checkSetting,
    });
    const supervisor = new Supervisor(home, settings, corp);
    await supervisor.load();
    using _corp = watchCorp(corp, () => supervisor.governance.refreshCorp());
    using _watch = settings.watch((ids) => {
      supervisor.tell({ type: "settings-changed", payload: { ids } });
      if (ids.some((id) => id.startsWith("ledger."))) supervisor.governance.refreshLedgers(settings);
    });
    await Deno.remove(home.serviceSocket).catch(() => {});
    await serve(makeApp({ home, supervisor, settings, corp }).fetch, home.serviceSocket, async () => {
      await writePid(home.servicePidFile);
      // Found out ahead of the first VM, which would wait for it; without assets it is found out then.
      supervisor.accelerator().catch(() => {});
      keepFor(supervisor, settings);
    });
    await supervisor.exports.close();
    await Deno.remove(home.servicePidFile).catch(() => {});
    return 0;
  } catch (cause) {
    const error = asSbxError(cause, "starting sbx-service");
    say(`sbx-service: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`);
    if (error.code === "internal") log(error.cause);
    return 1;
  }
}

/**
 * Says which process this is. A disk without room for that does not end the service, through which room can be made: it
 * is tried again until it is there.
 */
async function writePid(path: string): Promise<void> {
  try {
    await writeAtomic(path, `${Deno.pid}\n`);
  } catch (error) {
    log(asSbxError(error, `writing ${path}`).message);
    Deno.unrefTimer(setTimeout(() => writePid(path), PID_RETRY_MS) as unknown as number);
  }
}

/** Removes what is older than `vm.resources.retention_days`, once now and once a day. */
function keepFor(supervisor: Supervisor, settings: SettingsStore): void {
  const prune = () => {
    const days = settings.resolved.byId.get("vm.resources.retention_days")?.effective_value;
    if (typeof days === "number") {
      supervisor.sessions.prune(
        days,
        new Set(supervisor.list().map(({ id }) => id)),
      );
    }
  };
  Deno.unrefTimer(setTimeout(prune, PRUNE_DELAY_MS) as unknown as number);
  Deno.unrefTimer(setInterval(prune, PRUNE_MS) as unknown as number);
  Deno.unrefTimer(setInterval(() => supervisor.collectRest(), COLLECT_MS) as unknown as number);
}

/** Serves until SIGTERM or SIGINT; by the umask only this user may open the socket. */
async function serve(
  fetch: (request: Request) => Response | Promise<Response>,
  path: string,
  ready: () => Promise<void>,
): Promise<void> {
  const server = Deno.serve({ path, onListen: () => void ready() }, fetch);
  const stop = () => void server.shutdown();
  for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, stop);
  await server.finished;
}
