/** The debug report of a home (docs/design/contracts/11-debug-report.md §11). */
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
import { assetsOf } from "./assets.ts";
import { machineRedactor } from "./redaction.ts";

/** Programs of Linux whose versions decide whether a VM runs. */
const PROGRAMS = [...TOOL_NAMES, "newuidmap", "newgidmap", "setpriv"];
/** Logs of a home, by name. */
export const LOG_NAMES = ["service", "gateway", "tray", "mcp", "doctor"] as const;
const DAEMONS = ["service", "gateway"] as const;

/**
 * Places of systemd's units or launchd's agent (lib/service/login_start.ts); the first that exists is shown.
 */
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
 * value for the case that it cannot be read: a broken home, a full disk or files of another user make a
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
  const [runtime, disk, binaries, processes, setup, assets, logs, launcher, unit] = await Promise.all([
    runtimeFilesOf(home),
    disksOf(home),
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
      ...runtime,
    },
    host: {
      os,
      arch: Deno.build.arch,
      family: os === "windows" ? "windows" : "unix",
    },
    disk,
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

async function runtimeFilesOf(home: Home) {
  const [service_pid_file, gateway_pid_file, gateway_port_file, gateway_token_file] = await Promise.all([
    runtimeFile(home.servicePidFile),
    runtimeFile(home.gatewayPidFile),
    runtimeFile(home.gatewayPortFile),
    runtimeFile(home.gatewayTokenFile, { isSecret: true }),
  ]);
  return { service_pid_file, gateway_pid_file, gateway_port_file, gateway_token_file };
}

async function disksOf({ dir, runDir, assetsDir }: Home): Promise<DebugReport["disk"]> {
  const [home, run, assets] = await Promise.all([dir, runDir, assetsDir].map(diskOf));
  return { home, run, assets };
}

async function processesOf(home: Home, os: string): Promise<DebugReport["processes"]> {
  // Most machines have no tray: only one that runs is reported.
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
