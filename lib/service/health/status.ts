/** Reports of a service and its VMs: status, security, problems and logs. */
import { currentArch } from "../../base/arch/mod.ts";
import type {
  LogsResult,
  SecurityStatus,
  ServiceStatus,
  SystemStatus,
  VmSecurityLatest,
  VmSecurityStatus,
} from "../../client/api/mod.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { runsReplacedProgram } from "../../base/process/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { corpSummary } from "../../config/corp/mod.ts";
import { type ListedProfile, listProfiles } from "../../config/profile/mod.ts";
import { readSetup } from "../../release/setup/mod.ts";
import type { AcceleratorChooser } from "../vm/accelerator.ts";
import type { IdleVms } from "../vm/suspension.ts";
import type { Templates } from "../vm/templates.ts";
import type { Updates } from "../updates.ts";
import { type IssueSources, listIssues, requireAssets } from "./issues.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import { summaryOf, type Vm } from "../vm/vm.ts";
import { PROBE_MS, withDeadline } from "./health.ts";
import type { RecordRoom } from "../record/room.ts";
import type { EventFeeds } from "../record/event_feed.ts";
import type { ProfilesInForce } from "../contract/active_profiles.ts";
import { join } from "node:path";
import type { SessionPaths } from "../../session/mod.ts";

const PERMISSIONS = ["read", "write", "net", "env", "run", "ffi", "sys", "import"] as const;
const ALIVE: ReadonlySet<string> = new Set(["Running", "Booting", "Paused"]);

/** Parts of the service that its status shows. */
export interface StatusSources extends IssueSources {
  accelerators: AcceleratorChooser;
  templates: Templates;
  idle: IdleVms;
  updates: Updates;
  feeds: Pick<EventFeeds, "problems" | "standing">;
  room: Pick<RecordRoom, "problems" | "use">;
}

/** Reports the status of one service. */
export class StatusReport {
  readonly #sources: StatusSources;
  readonly #began = performance.now();

  constructor(sources: StatusSources) {
    this.#sources = sources;
  }

  async service(): Promise<ServiceStatus> {
    const vms = this.#sources.supervisor.list();
    const issues = await listIssues(this.#sources);
    return {
      ok: issues.length === 0,
      version: VERSION,
      pid: Deno.pid,
      uptime_secs: Math.round((performance.now() - this.#began) / 1000),
      vms: { running: vms.filter(({ status }) => ALIVE.has(status)).length, total: vms.length },
      issues,
      permissions: Object.fromEntries(
        PERMISSIONS.map((name) => [name, Deno.permissions.querySync({ name }).state]),
      ),
    };
  }

  /** The service with its host, hypervisor and assets. */
  async system(): Promise<SystemStatus> {
    const { hypervisor, spareRamMb } = this.#sources.supervisor;
    const { name, features } = hypervisor;
    const missing = Object.keys(features).flatMap((feature) => {
      const lack = hypervisor.lackOf(feature);
      return lack ? [[feature, lack]] : [];
    });
    return {
      ...await this.service(),
      host: { os: Deno.build.os, arch: Deno.build.arch, cpus: navigator.hardwareConcurrency },
      hypervisor: {
        name,
        features: { ...features },
        missing: Object.fromEntries(missing),
        ...await this.#accelerator(),
      },
      assets: await this.#assets(),
      templates: { ...await this.#sources.templates.status(), spare_ram_mb: spareRamMb },
      idle_suspend: this.#sources.idle.status(),
      update: await this.#sources.updates.status(),
      old_programs: await this.#oldPrograms(),
      disk: { free_bytes: await freeBytes(this.#sources.home.dir), ...this.#sources.room.use },
      corp: corpSummary(this.#sources.corp),
      sinks: await this.#sources.feeds.standing(),
      setup: { completed_steps: (await readSetup(this.#sources.home)).completed_steps },
    };
  }

  /** Processes of this home that run a program which was replaced since, as by an upgrade. */
  async #oldPrograms(): Promise<SystemStatus["old_programs"]> {
    const { home, supervisor } = this.#sources;
    const gateway = Number(await Deno.readTextFile(home.gatewayPidFile).catch(() => "0"));
    const running: SystemStatus["old_programs"] = [
      { program: "service", pid: Deno.pid },
      ...gateway > 0 ? [{ program: "gateway" as const, pid: gateway }] : [],
      ...supervisor.alive().map(({ record, state }) => ({
        program: "vm" as const,
        pid: state.pid,
        vm: record.name,
      })),
    ];
    const old = await Promise.all(running.map(({ pid }) => runsReplacedProgram(pid)));
    return running.filter((_, at) => old[at]);
  }

  async #accelerator(): Promise<{ accelerator: string; reason: string }> {
    return await this.#sources.accelerators.choose().then(
      ({ accelerator, reason }) => ({ accelerator, reason }),
      (error) => ({ accelerator: "unknown", reason: messageOf(error) }),
    );
  }

  async #assets(): Promise<SystemStatus["assets"]> {
    return await Promise.all((await listProfiles(this.#sources.home)).map(async (profile) => {
      const missing = await this.#missingAssets(profile);
      return { profile_id: profile.id, arch: currentArch(), ready: missing.length === 0, missing };
    }));
  }

  /** Reasons why VMs of a profile cannot boot. */
  async #missingAssets(profile: ListedProfile): Promise<string[]> {
    if ("error" in profile) return [profile.error.message];
    return await requireAssets(this.#sources.home, profile.profile).then(
      () => [],
      (error) => [messageOf(error)],
    );
  }
}

function messageOf(error: unknown): string {
  return asSbxError(error, "a check").message;
}

/** The part of the debug report about VMs (docs/design/contracts/11-debug-report.md §11). */
export async function liveState(
  { supervisor }: { supervisor: Supervisor },
  status: StatusReport,
): Promise<
  { running: number; total: number; issues: string[]; defunct: { name: string; last_error: string }[] }
> {
  const { vms, issues } = await status.service();
  const defunct = supervisor.list().flatMap(({ name, status, last_error }) =>
    status === "Defunct" || last_error !== undefined ? [{ name, last_error: last_error ?? status }] : []
  );
  return { running: vms.running, total: vms.total, issues, defunct };
}

const LATEST = 20;

/** Parts of the service that this reads. */
interface SecuritySources extends IssueSources {
  inForce: ProfilesInForce;
}

export class SecurityReport {
  readonly #sources: SecuritySources;

  constructor(sources: SecuritySources) {
    this.#sources = sources;
  }

  async service(): Promise<SecurityStatus> {
    const { registry, corp, home } = this.#sources;
    const { readMachineKey } = await import("../../release/signing/mod.ts");
    const [issues, key, vms] = await Promise.all([
      listIssues(this.#sources),
      readMachineKey(home).catch(() => undefined),
      Promise.all(registry.all().map((vm) => this.#standing(vm))),
    ]);
    return {
      ok: issues.length === 0,
      issues,
      corp: corp.state.status,
      machine_key: key?.id ?? null,
      vms,
    };
  }

  /** One VM with the sums of its record. */
  async of(vm: Vm): Promise<VmSecurityStatus> {
    const { readEvidence, readHeads } = await import("../../ledger/read/mod.ts");
    const standing = await this.#standing(vm);
    if (!await hasLedger(vm)) return { ...standing, ledger: null, evidence: null };
    const ledger = await readHeads(vm.paths.ledger);
    return { ...standing, ledger, evidence: await readEvidence(vm.paths.ledger, ledger) };
  }

  /** The latest findings and refusals of one VM. */
  async latest(vm: Vm): Promise<VmSecurityLatest> {
    if (!await hasLedger(vm)) return { findings: [], denied: [] };
    const { readLatest } = await import("../../ledger/read/mod.ts");
    const { findings, denied } = await readLatest(vm.paths.ledger, LATEST);
    return { findings: findings as unknown as VmSecurityLatest["findings"], denied };
  }

  async #standing(vm: Vm): Promise<SecurityStatus["vms"][number]> {
    const { inForce, supervisor } = this.#sources;
    const { id, name, status, profile_id, last_error } = summaryOf(vm, supervisor.hypervisor.features);
    const now = await withDeadline(inForce.of(vm), PROBE_MS).catch(() => undefined);
    return {
      id,
      name,
      status,
      profile_id,
      profile_revision: now?.revision ?? vm.record.profile_revision,
      outdated: now?.outdated ?? false,
      problems: [last_error, vm.problem].filter((problem) => problem !== undefined),
    };
  }
}

function hasLedger({ paths }: Vm): Promise<boolean> {
  return Deno.lstat(paths.ledger).then(() => true, () => false);
}

/** `bytes` shown of each log's end. */
const TAIL_BYTES = 64 * 1024;

/** Reads the ends of a VM's logs. */
export async function readLogs({ logs: dir }: Pick<SessionPaths, "logs">): Promise<LogsResult> {
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  return { logs: await Promise.all(names.sort().map((name) => readTail(dir, name))) };
}

async function readTail(dir: string, name: string): Promise<LogsResult["logs"][number]> {
  using file = await Deno.open(join(dir, name));
  const { size } = await file.stat();
  const start = Math.max(0, size - TAIL_BYTES);
  await file.seek(start, Deno.SeekMode.Start);
  const text = await new Response(file.readable).text();
  return {
    name,
    size_bytes: size,
    truncated: start > 0,
    lines: text.split(/\r?\n/).filter((line) => line !== ""),
  };
}
