/**
 * The debug report of a home, and the redaction of its secrets (docs/design/contracts/11-debug-report.md
 * §11).
 */
import { basename, dirname, join } from "node:path";
import type { DebugReport } from "../../client/api/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { ROLE_PROGRAMS, siblingProgram } from "../../base/spawn/mod.ts";
import { versionInfo } from "../../base/version/mod.ts";
import { daemonPid, pidFileOf } from "../../client/mod.ts";
import { readSetup } from "../../release/setup/mod.ts";
import { commandLineOf } from "../../base/process/mod.ts";
import { findProgram, libraryPath, TOOL_NAMES } from "../../machine/vm/mod.ts";
import { binariesOf, diskOf, hashOf, logTail, runtimeFile, within } from "./probe.ts";
import type { LiveState } from "./state.ts";
import { currentArch } from "../../base/arch/mod.ts";
import {
  DEFAULT_IMAGE,
  imageFolder,
  installedName,
  manifestNames,
  readInstalled,
} from "../../release/asset/mod.ts";
import { blake3, blake3File } from "../../base/hash/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { userInfo } from "node:os";
import { CredentialStore, Finder, storePath } from "../../credential/mod.ts";
import { Redactor } from "../../base/redact/mod.ts";

/** Programs of Linux whose versions decide whether a VM runs. */
const PROGRAMS = [...TOOL_NAMES, "newuidmap", "newgidmap", "setpriv"];
/** Logs of a home, by name. */
export const LOG_NAMES = ["service", "gateway", "tray", "mcp", "doctor"] as const;
const DAEMONS = ["service", "gateway"] as const;
/** Places of systemd's units or launchd's agent (lib/service/login_start.ts); the first that exists is shown. */
function unitsOf(os: string): string[] {
  if (os === "darwin") return [`${Deno.env.get("HOME") ?? ""}/Library/LaunchAgents/sbx.service.plist`];
  return [
    "/etc/systemd/system/sbx-service@.service",
    "/usr/lib/systemd/user/sbx-service.service",
    "/usr/lib/systemd/user/sbx.service",
  ];
}

/** The programs of all roles; from sources also the runtime that runs them. */
async function roleFiles(exe: string): Promise<(readonly [name: string, path: string | undefined])[]> {
  const found = await Promise.all(ROLE_PROGRAMS.map(async (name) => {
    const path = await within(siblingProgram(name), undefined);
    return [name, path ?? (name === "sbx" ? exe : undefined)] as const;
  }));
  return Deno.build.standalone ? found : [...found, ["deno", exe] as const];
}

/** Files that run VMs: a Mac's library, or Linux's programs. */
function hypervisorFiles(os: string): (readonly [name: string, path: string | undefined])[] {
  const library = libraryPath(undefined, os);
  const programs = os === "darwin" ? [] : PROGRAMS.map((name) => [name, findProgram(name)] as const);
  return [...library === undefined ? [] : [[basename(library), library] as const], ...programs];
}

/**
 * The debug report of a home (docs/design/contracts/11-debug-report.md §11). Each part has its deadline and a
 * value for the case that it cannot be looked at: a broken home, a full disk or files of another user make a
 * report too.
 *
 * @param os the system; tests replace it
 */
export async function debugReport(
  home: Home,
  { running, total, issues, defunct }: LiveState,
  os: string = Deno.build.os,
): Promise<DebugReport> {
  const { redactor, problem } = await machineRedactor(home);
  const { version, build_hash, build_time, platform } = versionInfo();
  const exe = Deno.execPath();
  const [files, disks, binaries, processes, setup, assets, logs, launcher, unit] = await Promise.all([
    Promise.all([
      runtimeFile(home.servicePidFile),
      runtimeFile(home.gatewayPidFile),
      runtimeFile(home.gatewayPortFile),
      runtimeFile(home.gatewayTokenFile, { isSecret: true }),
    ]),
    Promise.all([home.dir, home.runDir, home.assetsDir].map(diskOf)),
    binariesOf([...hypervisorFiles(os), ...await roleFiles(exe)]),
    processesOf(home, os),
    readSetup(home),
    assetsOf(home),
    Promise.all(LOG_NAMES.map((name) => logTail(name, join(home.logsDir, `${name}.log`)))),
    within(siblingProgram("sbx"), undefined),
    firstOf(unitsOf(os)),
  ]);
  const report: Omit<DebugReport, "logs"> = {
    schema: "sbx.debug.v2",
    redacted: true,
    generated_at: new Date().toISOString(),
    version: { sbx_version: version, build_hash, build_ts: build_time ?? "", platform },
    paths: { sbx_home: home.dir, run_dir: home.runDir, assets_dir: home.assetsDir },
    runtime: {
      running_vm_count: running,
      total_vm_count: total,
      service_pid_file: files[0],
      gateway_pid_file: files[1],
      gateway_port_file: files[2],
      gateway_token_file: files[3],
    },
    host: {
      os,
      arch: Deno.build.arch,
      family: os === "windows" ? "windows" : "unix",
    },
    disk: { home: disks[0], run: disks[1], assets: disks[2] },
    install: { bin_dir: dirname(launcher ?? exe), current_exe: exe, service_unit_path: unit },
    host_binaries: binaries,
    processes,
    status: {
      issues: [...issues, problem, ...logs.map(({ problem }) => problem)].filter((each) =>
        each !== undefined
      ),
      defunct_sessions: defunct,
    },
    setup,
    assets,
  };
  return {
    ...redactor.value(report),
    // Whole texts: a secret may reach over several lines.
    logs: logs.map(({ text, problem: _, ...log }) => ({
      ...log,
      path: redactor.text(log.path),
      tail: redactor.text(text).split(/\r?\n/).filter((line) => line !== ""),
    })),
  };
}

async function processesOf(home: Home, os: string): Promise<DebugReport["processes"]> {
  // A tray that runs not is nothing to report: most machines have none.
  const tray = await within(daemonPid(home, "tray"), undefined);
  return await Promise.all([...DAEMONS, ...tray === undefined ? [] : ["tray"] as const].map(async (name) => {
    const [pid, text] = await Promise.all([
      within(daemonPid(home, name), undefined),
      runtimeFile(pidFileOf(home, name)),
    ]);
    const path = pid === undefined ? "" : await within(programOf(pid, os), "");
    return {
      name,
      pid: pid ?? (Number.parseInt(text.contents ?? "", 10) || 0),
      running: pid !== undefined,
      executable_path: path,
      executable_hash: path === "" ? "" : await hashOf(path),
    };
  }));
}

/** Path of a process's program. */
async function programOf(pid: number, os: string): Promise<string> {
  return os === "linux" ? await Deno.readLink(`/proc/${pid}/exe`) : (await commandLineOf(pid))?.[0] ?? "";
}

async function firstOf(paths: readonly string[]): Promise<string> {
  for (const path of paths) if (await within(Deno.stat(path).then(() => true), false)) return path;
  return "";
}

type Assets = DebugReport["assets"];
type AssetState = Assets["files"]["kernel"];

/** Names of the boot files in a manifest. */
const FILES = { kernel: "vmlinuz", initrd: "initrd.img", rootfs: "rootfs.erofs" } as const;
/** Longest time to hash one, in `ms`. */
const HASH_MS = timeLimit(20_000);

/** The installed manifest of the default image, and its files against it. */
export async function assetsOf(home: Pick<Home, "assetsDir" | "sharedAssetsDir">): Promise<Assets> {
  const assetsDir = await imageFolder(home);
  const path = join(assetsDir, manifestNames(DEFAULT_IMAGE).manifest);
  const installed = await within(readInstalled(assetsDir), undefined);
  const release = installed?.manifest.assets.releases[installed.manifest.assets.current];
  const listed: Record<string, { hash: string; size: number }> = release?.arches[currentArch()] ?? {};
  const [kernel, initrd, rootfs] = await Promise.all(
    Object.values(FILES).map((name) => fileOf(assetsDir, name, listed[name])),
  );
  return {
    manifest: {
      path,
      exists: installed !== undefined || await within(Deno.stat(path).then(() => true), false),
      hash: installed ? blake3(installed.bytes) : "",
      signature: signatureOf(installed?.origin),
    },
    asset_version_for_binary: installed?.manifest.assets.current ?? "",
    files: { kernel, initrd, rootfs },
  };
}

/** A manifest has no signature of its own: its origin vouches for it. */
function signatureOf(origin: { origin: string; source: string } | undefined): string {
  return origin ? `${origin.origin}: ${origin.source}` : "";
}

async function fileOf(
  dir: string,
  name: string,
  listed?: { hash: string; size: number },
): Promise<AssetState> {
  const path = listed ? join(dir, installedName(name, listed.hash)) : join(dir, name);
  const none = {
    path,
    exists: false,
    manifest_hash: listed?.hash ?? "",
    manifest_size_bytes: listed?.size ?? 0,
    actual_hash: "",
    size_bytes: 0,
    actual_hash_matches_manifest: false,
  };
  const info = await within(Deno.stat(path), undefined);
  if (!info?.isFile) return none;
  const there = { ...none, exists: true, size_bytes: info.size };
  const actual = await within(blake3File(path), undefined, HASH_MS);
  return !actual ? there : {
    ...there,
    actual_hash: actual.hash,
    size_bytes: actual.size,
    actual_hash_matches_manifest: actual.hash === listed?.hash && actual.size === listed.size,
  };
}

/** The redaction of this machine: its user, its credentials, and on request its hosts. */
export interface MachineRedactor {
  redactor: Redactor;
  /** why the secrets of the credential store are found by their shapes only */
  problem?: string;
}

/** Makes the redaction of a home's reports and bundles. Never throws. */
export async function machineRedactor(home: Home, { hosts = false } = {}): Promise<MachineRedactor> {
  const known = await within(openFinder(home), undefined);
  const user = userName();
  const redactor = new Redactor({
    ...(known && { known }),
    ...(user !== undefined && user !== "root" && { user }),
    ...(hosts && { hosts: hostNames() }),
  });
  const problem = "the credential store cannot be opened: its secrets are redacted by their shapes only";
  return { redactor, ...(!known && { problem }) };
}

async function openFinder(home: Home): Promise<Finder> {
  const store = new CredentialStore(storePath(home));
  const { file } = store.read();
  const entries = file?.entries.filter(({ sealed }) => sealed !== undefined) ?? [];
  return new Finder(file ? await store.open(file, entries) : []);
}

function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

function hostNames(): string[] {
  const name = Deno.hostname();
  return [name, name.split(".")[0]];
}
