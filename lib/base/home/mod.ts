/** Locations of sbx's files; atomic writes; file locks (docs/design/contracts/01-homes.md §1). */
import { join } from "node:path";
import { SbxError } from "../error/mod.ts";

export { type AccessProblem, accessProblem, type AccessTerms } from "./access.ts";
export { lockWithin, namesThisProcess, onRemoval, writeAtomic } from "./file.ts";
export { removeFolder, removeIfThere } from "./remove.ts";

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
  /** artefacts of registries that VMs share */
  cacheDir: string;
  /** logs of the service and the gateway */
  logsDir: string;
  /** spending of profiles, by day */
  budgetsDir: string;
  /** Unix socket of the service's HTTP API */
  serviceSocket: string;
  servicePidFile: string;
  serviceLockFile: string;
  /** Unix socket of the gateway: the way of this user's own programs */
  gatewaySocket: string;
  gatewayTokenFile: string;
  gatewayPortFile: string;
  gatewayPidFile: string;
  trayPidFile: string;
}

/**
 * Paths of a Debian package: its program, and the assets that it installs for all users
 * (docs/guides/packages.md).
 */
const PACKAGED_PROGRAM = "/usr/bin/sbx", SHARED_ASSETS = "/var/lib/sbx/assets";

/** True if a Debian package installed this program. */
export function isPackaged(): boolean {
  return Deno.build.standalone && Deno.execPath().replace(/ \(deleted\)$/, "") === PACKAGED_PROGRAM;
}

/** Mode bits by which the group and others may write. */
const WRITABLE_BY_OTHERS = 0o022;

/**
 * The home of this process, checked. With `env`, the home that it names, unchecked: of another process, or
 * for a report that must also work in a home of another user.
 *
 * @throws {SbxError} `home.foreign`: another user owns the home or its run folder, or may write to it, and so
 * could put a socket, rules or a program of theirs there
 */
export function home(env?: { get(name: string): string | undefined }): Home {
  if (env) return placesOf(env);
  const place = placesOf(Deno.env);
  for (const path of [place.dir, place.runDir]) requireOwn(path);
  return place;
}

/**
 * Makes the run folder, for this user alone.
 *
 * @throws {SbxError} `home.foreign`: another user made it after the check of {@linkcode home}
 */
export async function makeRunDir({ runDir }: Pick<Home, "runDir">): Promise<void> {
  await makeOwnFolder(runDir);
}

/**
 * Makes a folder, unless it exists, and then checks its owner: another user may be faster.
 * @throws {SbxError} `home.foreign`
 */
export async function makeOwnFolder(path: string): Promise<void> {
  await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  requireOwn(path);
}

/** Refuses a folder of another user. A missing one passes: it is made later, for this user alone. */
function requireOwn(path: string): void {
  let info: Deno.FileInfo;
  try {
    info = Deno.statSync(path);
  } catch {
    // A path that cannot be read cannot be used either: the first use reports why.
    return;
  }
  const foreign = info.uid !== Deno.uid();
  if (!foreign && ((info.mode ?? 0) & WRITABLE_BY_OTHERS) === 0) return;
  throw new SbxError(
    "home.foreign",
    foreign ? `${path} belongs to another user` : `other users may write to ${path}`,
    {
      hint: foreign ? "run sbx as that user, or set SBX_HOME to a folder of your own" : `chmod go-w ${path}`,
    },
  );
}

function placesOf(env: { get(name: string): string | undefined }): Home {
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
    cacheDir: join(dir, "cache"),
    logsDir: join(dir, "logs"),
    budgetsDir: join(dir, "budgets"),
    serviceSocket: join(runDir, "service.sock"),
    servicePidFile: join(runDir, "service.pid"),
    serviceLockFile: join(runDir, "service.lock"),
    gatewaySocket: join(runDir, "gateway.sock"),
    gatewayTokenFile: join(runDir, "gateway.token"),
    gatewayPortFile: join(runDir, "gateway.port"),
    gatewayPidFile: join(runDir, "gateway.pid"),
    trayPidFile: join(runDir, "tray.pid"),
  };
}
