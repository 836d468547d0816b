/**
 * sbx-tray: state, running VMs and asks of one home in the tray of a Linux desktop (docs/guides/desktop.md,
 * "Tray").
 */
import { join } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import {
  home,
  lockWithin,
  makeRunDir,
  namesThisProcess,
  removeIfThere,
  writeAtomic,
} from "../../lib/base/home/mod.ts";
import { outliveRejections, redactLog, say } from "../../lib/base/log/mod.ts";
import { plain } from "../../lib/base/print/mod.ts";
import { runRole, unknownArguments } from "../../lib/base/role/mod.ts";
import { selfCommand } from "../../lib/base/spawn/mod.ts";
import { gatewayClient, start } from "../../lib/client/mod.ts";
import { busAddress } from "../../lib/base/dbus/mod.ts";
import { Redactor } from "../../lib/base/redact/mod.ts";
import { follow, Tray } from "../../lib/client/tray/mod.ts";

/** `ms` to wait for the lock of another tray; one that is exiting releases it at once. */
const LOCK_DEADLINE_MS = 500;
const NAME = "sbx-tray";
const USAGE = `${NAME}

Shows sbx in the tray of this desktop: running VMs, and asks that wait for a person, with
allow and deny. Ends when the session ends, or by its entry Quit; VMs go on.
`;

/** Stays in the tray until SIGTERM, SIGINT, Quit or the end of the session. @returns the exit code */
export function main(args: string[]): Promise<number> {
  redactLog(new Redactor().text);
  return runRole({ name: NAME, usage: USAGE, doing: "starting the tray", run }, args);
}

async function run(args: string[]): Promise<number> {
  if (args.length > 0) throw unknownArguments(NAME, args);
  if (Deno.build.os !== "linux") {
    throw new SbxError("tray.no_host", "sbx-tray runs on Linux desktops only", { hint: "use sbx desktop" });
  }
  return await stay();
}

async function stay(): Promise<number> {
  const place = home();
  await makeRunDir(place);
  using lock = await Deno.open(join(place.runDir, "tray.lock"), { write: true, create: true, mode: 0o600 });
  if (!await lockWithin(lock, LOCK_DEADLINE_MS)) {
    throw new SbxError("tray.already_running", `a tray is already running for ${place.dir}`, {
      hint: "look for its icon in the tray",
    });
  }
  outliveRejections();
  const stop = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.addSignalListener(signal, () => stop.abort());
  }
  const tray = await Tray.open({
    address: await busAddress(),
    open: openDesktop,
    start: async () => void await start(place),
    async send(method, path, json) {
      const client = await gatewayClient(place);
      if (client === undefined) throw new SbxError("gateway.unreachable", "sbx is not running");
      return await client.json(method, path, { json });
    },
    report: (message) => say(`sbx-tray: ${plain(message)}`),
  });
  tray.ended.then(() => stop.abort());
  await writeAtomic(place.trayPidFile, `${Deno.pid}\n`);
  await follow({
    find: () => gatewayClient(place),
    onState: (state) => tray.set(state),
    signal: stop.signal,
  });
  if (namesThisProcess(place.trayPidFile)) removeIfThere(place.trayPidFile);
  await tray.close();
  return 0;
}

async function openDesktop(): Promise<void> {
  const { cmd, args } = selfCommand("desktop");
  const command = new Deno.Command(cmd, { args, stdin: "null", stdout: "null", stderr: "piped" });
  const { success, stderr } = await command.output();
  if (success) return;
  const reason = new TextDecoder().decode(stderr).trim() || "sbx desktop failed";
  throw new SbxError("tray.open_failed", reason, { hint: "sbx desktop --print-url prints the address" });
}
