/** sbx-service: the daemon that owns the VMs of one home and serves the HTTP API on a UDS. */
import { CorpStore } from "../../lib/corp/mod.ts";
import { asSbxError } from "../../lib/error/mod.ts";
import { home as findHome, writeAtomic } from "../../lib/home/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/settings/mod.ts";
import { Supervisor } from "../../lib/supervisor/mod.ts";
import { makeApp } from "./app.ts";
import { takeLock } from "./lock.ts";

export async function main(): Promise<number> {
  const home = findHome();
  try {
    await Deno.mkdir(home.runDir, { recursive: true, mode: 0o700 });
    using _lock = await takeLock(home);
    const corp = new CorpStore(home);
    const settings = await SettingsStore.open({ home, corp, definitions: await loadDefinitions() });
    const supervisor = new Supervisor(home, settings);
    await supervisor.load();
    using _watch = settings.watch((ids) => supervisor.tell({ type: "settings-changed", payload: { ids } }));
    await Deno.remove(home.serviceSocket).catch(() => {});
    await serve(makeApp({ home, supervisor, settings, corp }).fetch, home.serviceSocket, async () => {
      await writeAtomic(home.servicePidFile, `${Deno.pid}\n`);
      // Found out ahead of the first VM, which would wait for it; without assets it is found out then.
      supervisor.accelerator().catch(() => {});
    });
    await Deno.remove(home.servicePidFile).catch(() => {});
    return 0;
  } catch (cause) {
    const error = asSbxError(cause, "starting sbx-service");
    console.error(`sbx-service: ${error.message}${error.hint ? `\n  ${error.hint}` : ""}`);
    if (error.code === "internal") console.error(error.cause);
    return 1;
  }
}

/** Serves until SIGTERM or SIGINT; only this user may open the socket. */
async function serve(
  fetch: (request: Request) => Response | Promise<Response>,
  path: string,
  ready: () => Promise<void>,
): Promise<void> {
  const before = Deno.umask(0o077);
  const server = Deno.serve({ path, onListen: () => void ready() }, fetch);
  Deno.umask(before);
  const stop = () => void server.shutdown();
  for (const signal of ["SIGTERM", "SIGINT"] as const) Deno.addSignalListener(signal, stop);
  await server.finished;
}
