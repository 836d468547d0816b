import { currentArch } from "../../base/arch/mod.ts";
import type { ServiceStatus, SystemStatus } from "../../client/api/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { corpSummary } from "../../config/corp/mod.ts";
import { type ListedProfile, listProfiles } from "../../config/profile/mod.ts";
import { readSetup } from "../../release/setup/mod.ts";
import type { AcceleratorChooser } from "../vm/accelerator.ts";
import { requireAssets } from "./asset_health.ts";
import type { IdleVms } from "../vm/idle.ts";
import type { Templates } from "../vm/templates.ts";
import type { Updates } from "../updates.ts";
import { type IssueSources, listIssues } from "./issues.ts";

const PERMISSIONS = ["read", "write", "net", "env", "run", "ffi", "sys", "import"] as const;
const ALIVE: ReadonlySet<string> = new Set(["Running", "Booting", "Paused"]);

/** Parts of the service that its status shows. */
export interface StatusSources extends IssueSources {
  accelerators: AcceleratorChooser;
  templates: Templates;
  idle: IdleVms;
  updates: Updates;
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
      corp: corpSummary(this.#sources.corp),
      setup: { completed_steps: (await readSetup(this.#sources.home)).completed_steps },
    };
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
