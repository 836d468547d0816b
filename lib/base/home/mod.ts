/** Locations of sbx's files (docs/contracts.md §1). */
import { join } from "node:path";

export { writeAtomic } from "./atomic.ts";
export { lockWithin } from "./lock.ts";
export { namesThisProcess } from "./pid.ts";
export { onRemoval } from "./removal.ts";
export { removeIfThere } from "./remove.ts";

/** Paths of one sbx installation. Installations with different homes share nothing. */
export interface Home {
  /** `SBX_HOME`, default `~/.sbx` */
  dir: string;
  /** `SBX_RUN_DIR`: sockets, pid files, the gateway's token */
  runDir: string;
  /** `SBX_ASSETS_DIR`: kernel, initrd, rootfs, manifest */
  assetsDir: string;
  /** assets that a package installed for all users; only of a packaged sbx, and without `SBX_ASSETS_DIR` */
  sharedAssetsDir?: string;
  /** `SBX_TEMPLATES_DIR`: booted guests from which VMs start */
  templatesDir: string;
  /** `SBX_PROFILES_DIR` */
  profilesDir: string;
  /** one folder per session: its record, logs, ledger and workspace */
  sessionsDir: string;
  /** logs of the service and the gateway */
  logsDir: string;
  /** what profiles spent, by day */
  budgetsDir: string;
  /** Unix socket of the service's HTTP API */
  serviceSocket: string;
  servicePidFile: string;
  serviceLockFile: string;
  gatewayTokenFile: string;
  gatewayPortFile: string;
  gatewayPidFile: string;
  trayPidFile: string;
}

/** Where a Debian package has its program, and the assets that it installs for all users (docs/packages.md). */
const PACKAGED_PROGRAM = "/usr/bin/sbx", SHARED_ASSETS = "/var/lib/sbx/assets";

/** Whether a Debian package installed this program. */
export function isPackaged(): boolean {
  return Deno.build.standalone && Deno.execPath().replace(/ \(deleted\)$/, "") === PACKAGED_PROGRAM;
}

/** Home named by the environment. */
export function home(env: { get(name: string): string | undefined } = Deno.env): Home {
  const dir = env.get("SBX_HOME") || join(env.get("HOME") || "/root", ".sbx");
  const runDir = env.get("SBX_RUN_DIR") || join(dir, "run");
  const assetsDir = env.get("SBX_ASSETS_DIR");
  return {
    dir,
    runDir,
    assetsDir: assetsDir || join(dir, "assets"),
    ...(!assetsDir && isPackaged() && { sharedAssetsDir: SHARED_ASSETS }),
    templatesDir: env.get("SBX_TEMPLATES_DIR") || join(dir, "templates"),
    profilesDir: env.get("SBX_PROFILES_DIR") || join(dir, "profiles"),
    sessionsDir: join(dir, "sessions"),
    logsDir: join(dir, "logs"),
    budgetsDir: join(dir, "budgets"),
    serviceSocket: join(runDir, "service.sock"),
    servicePidFile: join(runDir, "service.pid"),
    serviceLockFile: join(runDir, "service.lock"),
    gatewayTokenFile: join(runDir, "gateway.token"),
    gatewayPortFile: join(runDir, "gateway.port"),
    gatewayPidFile: join(runDir, "gateway.pid"),
    trayPidFile: join(runDir, "tray.pid"),
  };
}
